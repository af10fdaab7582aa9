package sample

import (
	"time"

	"sluice/pkg/order"
)

// adyenCodes are the event codes, and whether they succeeded.
var adyenCodes = map[order.Kind][2]string{
	order.KindPaid:         {"AUTHORISATION", "true"},
	order.KindFailed:       {"AUTHORISATION", "false"},
	order.KindRefund:       {"REFUND", "true"},
	order.KindRefundFailed: {"REFUND_FAILED", "true"},
}

// adyen writes a batch of one item. Its signature goes into additionalData.
func adyen(f Fact) object {
	code, ok := adyenCodes[f.Kind]
	if !ok {
		return nil
	}
	item := object{
		"additionalData": object{}, "amount": object{"currency": f.Currency, "value": f.Amount}, "eventCode": code[0], "success": code[1],
		"eventDate": f.Time.Format(time.RFC3339), "merchantAccountCode": "DemoShopECOM", "merchantReference": f.Order, "paymentMethod": "visa",
		"pspReference": f.Payment, "reason": "",
	}
	if f.Kind == order.KindRefund || f.Kind == order.KindRefundFailed {
		item["pspReference"], item["originalReference"] = f.Object, f.Payment
	}
	live := "false"
	if f.Live {
		live = "true"
	}
	return object{"live": live, "notificationItems": []object{{"NotificationRequestItem": item}}}
}
