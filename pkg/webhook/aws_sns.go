package webhook

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"time"

	"sluice/pkg/event"
)

// awsSNS is Amazon SNS over HTTPS (docs.aws.amazon.com/sns, Verifying the signatures
// of messages): a JSON envelope whose own fields are signed with RSA. Anybody can have
// a topic, and its messages verify just as well: an endpoint says whose it believes.
type awsSNS struct{ topic string }

func newAWSSNS() Provider { return awsSNS{} }

// snsSigned are the signed fields of each type, in the order in which they are
// signed. Subject is left out where there is none.
var snsSigned = map[string][]string{
	"Notification":             {"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"},
	"SubscriptionConfirmation": {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
	"UnsubscribeConfirmation":  {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
}

// snsHost is the host of a certificate (aws-php-sns-message-validator).
var snsHost = regexp.MustCompile(`^sns\.[a-z0-9-]{3,}\.amazonaws\.com(\.cn)?$`)

// snsFields are the fields of an envelope, all of them text.
var snsFields = wanted("Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type",
	"SignatureVersion", "SigningCertURL", "Signature")

func (awsSNS) Name() string               { return "aws_sns" }
func (awsSNS) SignatureHeaders() []string { return nil }
func (awsSNS) TimeRepeats() bool          { return false }
func (awsSNS) ChangedBody() ChangedBody   { return Final }
func (awsSNS) CheckSecret(Secret) error   { return nil }

// Account is the topic whose messages are believed.
func (awsSNS) Account() string { return "the topic's ARN (TopicArn)" }

// WithAccount is SNS for one topic.
func (awsSNS) WithAccount(topic string) Provider { return awsSNS{topic} }

func (awsSNS) Profile() Profile {
	return Profile{
		Title:     "Amazon SNS",
		Docs:      "https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html",
		Signature: "RSA with SHA-1 (version 1) or SHA-256 (version 2) in base64 over the envelope's fields, by a certificate of sns.REGION.amazonaws.com, in the body's Signature",
		Covers:    "Message, MessageId, Subject, Timestamp, TopicArn and Type",
		Leaves:    "whose topic it is: anybody can have one; and the certificate's issuer, which Amazon does not send",
		Instead:   "only the endpoint's own topic is believed, and a certificate only from Amazon's own hosts; a subscription is confirmed by a person, never by Sluice",
		ID:        "`MessageId`",
		Trust:     event.Signed,
		// The delivery policy of an HTTPS subscription, at most: 3 600 s.
		Retries: time.Hour,
	}
}

// snsEnvelope is the text of the fields that are there.
func snsEnvelope(body []byte) (map[string]string, error) {
	values, err := snsFields.scan(body)
	if err != nil {
		return nil, err
	}
	envelope := make(map[string]string, len(values))
	for i, v := range values {
		if v.kind == absent || v.kind == null {
			continue
		}
		if envelope[snsFields.paths[i]], err = v.text(); err != nil {
			return nil, errors.New(snsFields.paths[i] + " " + err.Error())
		}
	}
	return envelope, nil
}

// CertificateURL is a .pem file of Amazon SNS in some region.
func (awsSNS) CertificateURL(req Request) (string, Reason) {
	envelope, err := snsEnvelope(req.Body)
	if err != nil {
		return "", ReasonMalformed
	}
	text, reason := certificateURL(envelope["SigningCertURL"], snsHost.MatchString)
	if reason == ReasonNone && !strings.HasSuffix(text, ".pem") {
		return "", ReasonCertificate
	}
	return text, reason
}

func (p awsSNS) Verify(req Request, _ []Secret, now time.Time) Verdict {
	if _, reason := p.CertificateURL(req); reason != ReasonNone {
		return refuse(reason)
	}
	envelope, err := snsEnvelope(req.Body)
	if err != nil {
		return refuse(ReasonMalformed)
	}
	signed, ok := snsString(envelope)
	signature, err := base64.StdEncoding.Strict().DecodeString(envelope["Signature"])
	switch {
	case envelope["Signature"] == "":
		return refuse(ReasonMissing)
	case !ok || err != nil:
		return refuse(ReasonMalformed)
	case !req.Certificate.validAt(now):
		return refuse(ReasonCertificate)
	}
	key, ok := req.Certificate.Chain[0].PublicKey.(*rsa.PublicKey)
	if !ok {
		return refuse(ReasonCertificate)
	}
	switch envelope["SignatureVersion"] {
	case "1":
		digest := sha1.Sum([]byte(signed))
		err = rsa.VerifyPKCS1v15(key, crypto.SHA1, digest[:], signature)
	case "2":
		digest := sha256.Sum256([]byte(signed))
		err = rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature)
	default:
		return refuse(ReasonMalformed)
	}
	switch {
	case err != nil:
		return refuse(ReasonMismatch)
	case p.topic != "" && envelope["TopicArn"] != p.topic:
		return refuse(ReasonAccount)
	}
	return Verdict{Outcome: Valid}
}

// snsString is what is signed: each field's name and value, each with a line end.
func snsString(envelope map[string]string) (string, bool) {
	names, ok := snsSigned[envelope["Type"]]
	if !ok {
		return "", false
	}
	var b strings.Builder
	for _, name := range names {
		v, given := envelope[name]
		if !given {
			if name == "Subject" {
				continue
			}
			return "", false
		}
		b.WriteString(name + "\n" + v + "\n")
	}
	return b.String(), true
}

func (awsSNS) Sign(Secret, string, time.Time, []byte) (map[string]string, error) {
	return nil, errors.New("sign: only Amazon has the key that signs SNS messages")
}

// snsMessage wants the type of a Message, if it is one of Standard Webhooks.
var snsMessage = wanted("type")

func snsStandard(message []byte) bool {
	found, err := snsMessage.scan(message)
	return err == nil && found[0].given()
}

// Read reads a Notification whose Message has the form of Standard Webhooks (type,
// timestamp, data) as one, under the envelope's MessageId. What a shop publishes in
// any other form states nothing, and neither does a confirmation: Sluice never visits
// a SubscribeURL.
func (awsSNS) Read(_ Headers, body []byte) (Reading, error) {
	envelope, err := snsEnvelope(body)
	if err != nil {
		return Reading{}, err
	}
	text := func(name string) value { return value{kind: plain, raw: []byte(envelope[name])} }
	r := Reading{Trust: event.Signed}
	if r.ID, err = text("MessageId").id(); err != nil {
		return Reading{}, errors.New("MessageId " + err.Error())
	}
	if r.Type, err = text("Type").name(); err != nil {
		return Reading{}, errors.New("Type " + err.Error())
	}
	if r.Time, err = (timeForm{}).read(text("Timestamp")); err != nil {
		return Reading{}, errors.New("Timestamp " + err.Error())
	}
	message := []byte(envelope["Message"])
	if r.Type != "Notification" || !snsStandard(message) {
		return r, nil
	}
	inner, err := standardLayout.Read(func(string) []string { return []string{r.ID} }, message)
	if err != nil {
		return Reading{}, err
	}
	if inner.Time.IsZero() {
		inner.Time = r.Time
	}
	return inner, nil
}
