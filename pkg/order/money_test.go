package order

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDecimalTextIsReadExactly(t *testing.T) { // O18, O19
	for _, c := range []struct {
		text, currency string
		want           int64
	}{
		{"8.20", "EUR", 820}, {"8.2", "EUR", 820}, {"8", "EUR", 800}, {"8.200", "EUR", 820},
		{"19.99", "USD", 1999}, {"599.80", "USD", 59980}, {"0.07", "USD", 7}, {"1.10", "USD", 110},
		{"4.35", "USD", 435}, {"1234567890.12", "USD", 123456789012}, {"0", "EUR", 0}, {"0.00", "EUR", 0},
		{"5800", "JPY", 5800}, {"5800.00", "JPY", 5800}, {"5800", "XOF", 5800},
		{"1.234", "KWD", 1234}, {"1", "BHD", 1000}, {"1.2345", "CLF", 12345}, {"1", "UYW", 10000},
		{"90071992547409.93", "EUR", 9007199254740993},
		{"92233720368547758.07", "EUR", math.MaxInt64}, {"9223372036854775807", "JPY", math.MaxInt64},
	} {
		if got, err := ParseDecimal(c.text, c.currency); err != nil || got != c.want {
			t.Errorf("ParseDecimal(%q, %s) = %d, %v; want %d", c.text, c.currency, got, err, c.want)
		}
	}
}

func TestDecimalTextThatIsNotExactlyMoneyIsRefused(t *testing.T) { // O18, O19
	for _, c := range []struct {
		text, currency string
		want           error
	}{
		{"", "EUR", ErrDecimal}, {".", "EUR", ErrDecimal}, {"1.", "EUR", ErrDecimal}, {".5", "EUR", ErrDecimal},
		{"-1", "EUR", ErrDecimal}, {"+1", "EUR", ErrDecimal}, {"-0", "EUR", ErrDecimal}, {"1e3", "EUR", ErrDecimal},
		{"8.20e0", "EUR", ErrDecimal}, {"1E2", "JPY", ErrDecimal}, {"1e400", "EUR", ErrDecimal}, {"0x10", "EUR", ErrDecimal},
		{"NaN", "EUR", ErrDecimal}, {"Infinity", "EUR", ErrDecimal}, {" 8.20", "EUR", ErrDecimal}, {"8.20 EUR", "EUR", ErrDecimal},
		{"8,20", "EUR", ErrDecimal}, {"1_000", "EUR", ErrDecimal}, {"1.2.3", "EUR", ErrDecimal}, {"٨.٢٠", "EUR", ErrDecimal},
		{"8.205", "EUR", ErrPrecision}, {"5800.5", "JPY", ErrPrecision}, {"1.2345", "KWD", ErrPrecision},
		{"92233720368547758.08", "EUR", ErrRange}, {"92233720368547759", "EUR", ErrRange},
		{"9223372036854775808", "JPY", ErrRange}, {strings.Repeat("9", 40), "JPY", ErrRange},
		{"1", "", ErrCurrency}, {"1", "eur", ErrCurrency}, {"1", "XXX", ErrCurrency}, {"1", "XTS", ErrCurrency},
		{"1", "XAU", ErrCurrency}, {"1", "ABC", ErrCurrency},
	} {
		if got, err := ParseDecimal(c.text, c.currency); !errors.Is(err, c.want) || got != 0 {
			t.Errorf("ParseDecimal(%q, %s) = %d, %v; want %v", c.text, c.currency, got, err, c.want)
		}
	}
	if _, err := FormatDecimal(-1, "EUR"); !errors.Is(err, ErrRange) {
		t.Errorf("FormatDecimal(-1) = %v", err)
	}
	if _, err := FormatDecimal(1, "XXX"); !errors.Is(err, ErrCurrency) {
		t.Errorf("FormatDecimal of no currency = %v", err)
	}
}

func TestEveryAmountIsWrittenAndReadBackUnchanged(t *testing.T) {
	codes := make([]string, 0, len(exponents))
	for code := range exponents {
		codes = append(codes, code)
	}
	rapid.Check(t, func(t *rapid.T) {
		minor := rapid.Int64Min(0).Draw(t, "minor")
		currency := rapid.SampledFrom(codes).Draw(t, "currency")
		text, err := FormatDecimal(minor, currency)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseDecimal(text, currency); err != nil || got != minor {
			t.Fatalf("%d %s became %q became %d, %v", minor, currency, text, got, err)
		}
	})
}

func TestTheCurrencyTableNamesEachCodeOnce(t *testing.T) {
	counts := map[int8]int{}
	for code, places := range exponents {
		if len(code) != 3 || strings.ToUpper(code) != code {
			t.Errorf("%q is no code", code)
		}
		counts[places]++
	}
	want := map[int8]int{0: 17, 2: 145, 3: 7, 4: 2}
	for places, n := range want {
		if counts[places] != n {
			t.Errorf("%d currencies have %d places, want %d", counts[places], places, n)
		}
	}
}

func FuzzParseDecimal(f *testing.F) {
	for _, s := range []string{"8.20", "8.205", "-1", "1e3", "92233720368547758.07", "9223372036854775808", "٨", ".", "00.10"} {
		f.Add(s, "EUR")
		f.Add(s, "JPY")
		f.Add(s, "CLF")
	}
	f.Fuzz(func(t *testing.T, text, currency string) {
		n, err := ParseDecimal(text, currency)
		if err != nil {
			if n != 0 {
				t.Fatalf("refused %q and returned %d", text, n)
			}
			return
		}
		back, err := FormatDecimal(n, currency)
		if err != nil {
			t.Fatalf("%q was read as %d, which cannot be written: %v", text, n, err)
		}
		if plain(text) != plain(back) {
			t.Fatalf("%q %s was read as %d, that is %q", text, currency, n, back)
		}
	})
}

// plain is a decimal without zeros that say nothing.
func plain(s string) string {
	whole, fraction, _ := strings.Cut(s, ".")
	return strings.TrimLeft(whole, "0") + "." + strings.TrimRight(fraction, "0")
}
