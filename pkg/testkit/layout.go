package testkit

import "fmt"

// Endpoints files of one declared provider, acme: as somebody wrote its layout down
// wrongly, and as it is. The wrong one takes the order and the amount from other
// fields, knows no event "settled", and believes "void" to be paid.
var (
	MisreadLayout = fmt.Sprintf(layout, "order", "amount", "          - {type: paid, kind: paid}\n          - {type: void, kind: paid}\n")
	MendedLayout  = fmt.Sprintf(layout, "ref", "total", "          - {type: paid, kind: paid}\n          - {type: settled, kind: paid}\n          - {type: void, kind: failed}\n")
)

const layout = `endpoints:
  - name: acme
    provider: declared
    secrets: [env:S]
    declared:
      signature: {header: x-signature, algorithm: sha256, encoding: hex}
      reading:
        id: id
        type: status
        time: updated
        order: %s
        payment: payment
        amount: %s
        currency: currency
        facts:
%s`
