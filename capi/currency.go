package capi

import "strings"

// NormaliseCurrency brings a currency into the form of ISO 4217 (page "Custom data
// parameters"): three capital letters. A sign is taken where it belongs to one
// currency only, so $ and ¥ are not; nothing is ever guessed.
func NormaliseCurrency(raw string) (string, *Problem) {
	s := strings.ToUpper(plainText(raw))
	if s == "" {
		return "", nil
	}
	if isCurrency(s) {
		return s, nil
	}
	if code := currencySigns[s]; code != "" {
		return code, nil
	}
	code := "" // "100 USD", "eur."
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		if code != "" || !isCurrency(word) {
			p := warning("custom_data.currency", ProblemUnknownCurrency)
			return "", &p
		}
		code = word
	}
	if code == "" {
		p := warning("custom_data.currency", ProblemUnknownCurrency)
		return "", &p
	}
	return code, nil
}

func isCurrency(s string) bool {
	return len(s) == 3 && strings.Contains(currencyCodes, s) && s[0] != ' ' && s[1] != ' ' && s[2] != ' '
}

// currencyCodes is what ISO 4217 has in use in late 2026, without funds, metals and
// test codes. ANG became XCG in 2025, BGN gave way to EUR in January 2026.
const currencyCodes = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD " +
	"CAD CDF CHF CLF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD " +
	"HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD " +
	"MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG " +
	"QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS " +
	"UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG"

// currencySigns are the signs that stand for one currency only, in capitals.
var currencySigns = map[string]string{
	"US$": "USD", "$US": "USD", "€": "EUR", "£": "GBP", "R$": "BRL", "A$": "AUD", "AU$": "AUD", "C$": "CAD", "CA$": "CAD",
	"NZ$": "NZD", "HK$": "HKD", "NT$": "TWD", "S$": "SGD", "MX$": "MXN", "₹": "INR", "₽": "RUB", "₺": "TRY", "₴": "UAH",
	"₸": "KZT", "₫": "VND", "₱": "PHP", "₦": "NGN", "₪": "ILS", "฿": "THB", "₾": "GEL", "֏": "AMD", "₼": "AZN", "₮": "MNT",
	"ZŁ": "PLN", "KČ": "CZK", "₩": "KRW", "₲": "PYG", "₡": "CRC", "₵": "GHS",
}
