package capitest

import "strings"

// currencies are the codes of ISO 4217 that are in use, late 2026.
var currencies = func() map[string]bool {
	m := map[string]bool{}
	for c := range strings.FieldsSeq(`AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP
		BYN BZD CAD CDF CHF CLF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ
		GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD
		MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD
		RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU
		UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG`) {
		m[c] = true
	}
	return m
}()

// currencyCode returns the code in capitals; Meta takes either case.
func currencyCode(b []byte) (string, bool) {
	if len(b) != 3 {
		return "", false
	}
	c := strings.ToUpper(string(b))
	return c, currencies[c]
}
