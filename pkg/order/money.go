package order

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Errors of ParseDecimal and FormatDecimal; test with errors.Is.
var (
	// ErrCurrency: the code is not one of ISO 4217's active codes with a minor unit.
	ErrCurrency = errors.New("no ISO 4217 currency code")
	// ErrDecimal: the text is not plain digits with at most one point between them.
	ErrDecimal = errors.New("no plain decimal number")
	// ErrPrecision: it has digits that the currency has not.
	ErrPrecision = errors.New("more decimal places than the currency has")
	// ErrRange: it has more minor units than an int64 holds, or fewer than none.
	ErrRange = errors.New("amount out of range")
)

// exponents are the decimal places of each active code of ISO 4217 (list one of
// the standard's maintenance agency, funds codes included; metals, testing and
// "no currency" have no minor unit and are no money). Codes withdrawn since 2021
// stay, because a refund may name the currency of an old order.
var exponents = func() map[string]int8 {
	list := map[int8]string{
		0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
		2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW " +
			"CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF " +
			"IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK " +
			"MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP " +
			"SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG " +
			"YER ZAR ZMW ZWG " +
			"ANG BGN CUC HRK SLL ZWL", // withdrawn
		3: "BHD IQD JOD KWD LYD OMR TND",
		4: "CLF UYW",
	}
	m := make(map[string]int8, 180)
	for places, codes := range list {
		for code := range strings.FieldsSeq(codes) {
			m[code] = places
		}
	}
	return m
}()

// Exponent is the number of decimal places of a currency (0, 2, 3 or 4), and
// whether the code (upper case) is one.
func Exponent(currency string) (int, bool) {
	places, ok := exponents[currency]
	return int(places), ok
}

// ParseDecimal reads an amount such as "19.99" as minor units of a currency (ISO
// 4217, upper case), exactly. It refuses signs, exponents, spaces, group
// separators, a point without digits on both sides, amounts beyond an int64, and
// digits other than 0 beyond the currency's decimal places: nothing is rounded.
func ParseDecimal(text, currency string) (int64, error) {
	places, ok := Exponent(currency)
	if !ok {
		return 0, fmt.Errorf("reading an amount in %q: %w", currency, ErrCurrency)
	}
	n, err := parseDecimal(text, places)
	if err != nil {
		return 0, fmt.Errorf("reading an amount in %s: %w", currency, err)
	}
	return n, nil
}

// ParseNumber is ParseDecimal for the digits of a JSON number, which may also have an
// exponent: 8.20e0 and 82e-1 are 8.20. No float is made of it.
func ParseNumber(text, currency string) (int64, error) {
	mantissa, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	if !ok {
		return ParseDecimal(text, currency)
	}
	n, err := strconv.Atoi(exponent)
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading an amount in %s: %w", currency, ErrDecimal)
	case n < -maxExponent || n > maxExponent:
		return 0, fmt.Errorf("reading an amount in %s: %w", currency, ErrRange)
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if !digits(whole) || point && !digits(fraction) {
		return 0, fmt.Errorf("reading an amount in %s: %w", currency, ErrDecimal)
	}
	if n >= 0 {
		fraction += strings.Repeat("0", max(0, n-len(fraction)))
		whole, fraction = whole+fraction[:n], fraction[n:]
	} else {
		whole = strings.Repeat("0", max(0, 1-n-len(whole))) + whole
		whole, fraction = whole[:len(whole)+n], whole[len(whole)+n:]+fraction
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return ParseDecimal(whole, currency)
}

// maxExponent bounds the zeros that an exponent writes; an int64 has 19 digits.
const maxExponent = 30

func parseDecimal(text string, places int) (int64, error) {
	whole, fraction, point := strings.Cut(text, ".")
	if !digits(whole) || (point && !digits(fraction)) {
		return 0, ErrDecimal
	}
	if len(fraction) > places {
		if strings.Trim(fraction[places:], "0") != "" {
			return 0, ErrPrecision
		}
		fraction = fraction[:places]
	}
	var n int64
	for _, part := range []string{whole, fraction} {
		for _, c := range []byte(part) {
			d := int64(c - '0')
			if n > (math.MaxInt64-d)/10 {
				return 0, ErrRange
			}
			n = n*10 + d
		}
	}
	for range places - len(fraction) {
		if n > math.MaxInt64/10 {
			return 0, ErrRange
		}
		n *= 10
	}
	return n, nil
}

func digits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// FormatDecimal is minor units as a decimal with exactly the currency's places,
// for example 1999 EUR as "19.99". Negative amounts are refused.
func FormatDecimal(minor int64, currency string) (string, error) {
	places, ok := Exponent(currency)
	if !ok {
		return "", fmt.Errorf("writing an amount in %q: %w", currency, ErrCurrency)
	}
	if minor < 0 {
		return "", fmt.Errorf("writing an amount in %s: %w", currency, ErrRange)
	}
	s := fmt.Sprintf("%0*d", places+1, minor)
	if places == 0 {
		return s, nil
	}
	return s[:len(s)-places] + "." + s[len(s)-places:], nil
}
