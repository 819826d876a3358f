package crm

import (
	"encoding/json"
	"math/big"
	"strings"
	"unicode"

	"github.com/capiloop/capiloop/capi"
)

// money reads the amount and its currency.
func (d *stageDecoder) money() {
	field := "value"
	if d.values["amount"] != "" {
		field = "amount"
	}
	text := d.values[field]
	if field == "amount" && d.values["value"] != "" {
		d.sameAmount()
	}
	code := d.values["currency"]
	if number, sign := withoutSign(text); sign != "" { // $1,500.50 or 1500 EUR
		text = number
		c, p := capi.NormaliseCurrency(sign)
		switch {
		case sign == "$": // of whichever dollar
		case p != nil, code != "" && !strings.EqualFold(c, code):
			d.fail(field, capi.ProblemUnknownCurrency, "what stands beside the number is no currency of ISO 4217, or not the one that currency says", "send the number alone, and currency with three letters such as USD")
			return
		default:
			code = c
		}
	}
	if code != "" && !isPlaceholder(code) {
		c, p := capi.NormaliseCurrency(code)
		if p != nil {
			d.fail("currency", p.Code, "it is no currency of ISO 4217", "send three letters such as USD; leave it out for the workspace's currency")
		}
		d.change.Currency = c
	}
	if text == "" || strings.Trim(text, "-–— ") == "" || isPlaceholder(text) && text != "0" {
		return
	}
	amount, code, reason, fix := readAmount(text, d.table)
	switch {
	case code != "":
		d.fail(field, code, reason, fix)
	case strings.HasPrefix(amount, "-"):
		d.warn(field, capi.ProblemNegativeValue, "an amount cannot be negative; it was left out", "send what the deal is worth")
	default:
		d.change.Amount = amount
	}
}

// sameAmount complains about two amounts of one change.
func (d *stageDecoder) sameAmount() {
	a, _, _, _ := readAmount(d.values["amount"], d.table)
	b, _, _, _ := readAmount(d.values["value"], d.table)
	if a != b && d.values["amount"] != d.values["value"] {
		d.fail("value", capi.ProblemDuplicateField, "value and amount say different things", "send one of them")
	}
}

// withoutSign takes a sign or a code of a currency off a number: "€ 1500", "1500.50 USD".
func withoutSign(text string) (number, sign string) {
	inside := func(r rune) bool { return unicode.IsDigit(r) || strings.ContainsRune("+-.,'", r) }
	from, to := strings.IndexFunc(text, inside), strings.LastIndexFunc(text, inside)
	if from < 0 {
		return text, ""
	}
	before, after := strings.TrimSpace(text[:from]), strings.TrimSpace(text[to+1:])
	sign = before + after
	if before != "" && after != "" || len(sign) > 6 || sign == "" || strings.ContainsFunc(sign, unicode.IsDigit) {
		return text, ""
	}
	return strings.TrimSpace(text[from : to+1]), sign
}

const (
	fixPoint   = "write 1500.50: a point before the cents, and nothing else"
	notANumber = "it is not a number"
)

// readAmount writes an amount as a plain decimal number with a point. Where a comma could be
// read in two ways it is refused; table says that a comma before the cents is understood.
func readAmount(text string, table bool) (amount, code, reason, fix string) {
	s := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '\'' || r == '’' {
			return -1
		}
		return r
	}, text)
	comma, point := strings.LastIndexByte(s, ','), strings.LastIndexByte(s, '.')
	switch {
	case len(s) > 40:
		return "", capi.ProblemInvalidValue, notANumber, fixPoint
	case comma < 0 && table && strings.Count(s, ".") == 1 && grouped(s, '.'):
		return "", ProblemAmbiguousAmount, "the point may stand before thousands or before decimals", fixPoint
	case comma < 0 && strings.Count(s, ".") > 1: // 1.500.000
		if !grouped(s, '.') {
			return "", capi.ProblemInvalidValue, notANumber, fixPoint
		}
		s = strings.ReplaceAll(s, ".", "")
	case comma < 0:
	case point > comma || point < 0 && strings.Count(s, ",") > 1: // 1,500.50 and 1,500,000
		whole := s
		if point > comma {
			whole = s[:point]
		}
		if !grouped(whole, ',') || strings.Count(s, ".") > 1 {
			return "", capi.ProblemInvalidValue, notANumber, fixPoint
		}
		s = strings.ReplaceAll(s, ",", "")
	case point < 0 && grouped(s, ','): // 1,500
		return "", ProblemAmbiguousAmount, "the comma may stand before thousands or before decimals", fixPoint
	case !table:
		return "", capi.ProblemInvalidValue, "a comma stands before the decimals", fixPoint
	case strings.Count(s, ",") > 1 || point >= 0 && !grouped(s[:comma], '.'):
		return "", capi.ProblemInvalidValue, notANumber, fixPoint
	default: // 1.500,50 and 1500,50
		s = strings.ReplaceAll(strings.ReplaceAll(s, ".", ""), ",", ".")
	}
	if amount = plainDecimal(s); amount == "" {
		return "", capi.ProblemInvalidValue, notANumber, fixPoint
	}
	return amount, "", "", ""
}

// grouped tells whether a number is written in groups of three digits.
func grouped(s string, by byte) bool {
	groups := strings.Split(strings.TrimLeft(s, "+-"), string(by))
	for i, g := range groups {
		if !isDigits(g) || i > 0 && len(g) != 3 || i == 0 && (len(g) > 3 || g == "0") {
			return false
		}
	}
	return len(groups) > 1
}

// plainDecimal writes a number without exponent and without zeros that say nothing; "" if it
// is none, or none that money can be.
func plainDecimal(s string) string {
	s = strings.TrimPrefix(s, "+")
	if s == "" || strings.Trim(s, "0123456789.eE+-") != "" || strings.HasPrefix(s, "--") {
		return ""
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(s), "e"); ok && len(strings.TrimLeft(exponent, "+-")) > 2 {
		return ""
	}
	var n json.Number // strict about what is a number, but for a point at an end
	if json.Unmarshal([]byte(strings.TrimSuffix(padded(s), ".")), &n) != nil {
		return ""
	}
	r, ok := new(big.Rat).SetString(n.String())
	if !ok || r.Num().BitLen() > 80 {
		return ""
	}
	text := strings.TrimSuffix(strings.TrimRight(r.FloatString(6), "0"), ".")
	if text == "-0" {
		return "0"
	}
	return text
}

// padded writes .5 as 0.5 and 007 as 7.
func padded(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	s = strings.TrimLeft(s, "0")
	if s == "" || s[0] < '0' || s[0] > '9' {
		s = "0" + s
	}
	return sign + s
}
