package capi

// Codes of the problems that normalising finds. All are warnings: the value is left
// out, or changed in meaning, and the rest of the event goes on.
const (
	ProblemPlaceholder     = "placeholder"          // "null", "n/a", 0000000: stands for no value
	ProblemInvalidEmail    = "invalid_email"        // no e-mail address
	ProblemInvalidPhone    = "invalid_phone"        // no possible phone number
	ProblemNoCountryCode   = "no_country_code"      // a phone number whose country is not known; sent, but hardly matches
	ProblemInvalidName     = "invalid_name"         // a name without letters
	ProblemUnknownGender   = "unknown_gender"       // neither f nor m
	ProblemInvalidDate     = "invalid_date"         // no date of birth from 1900 to today
	ProblemInvalidPlace    = "invalid_place"        // a city or state without letters
	ProblemInvalidZip      = "invalid_zip"          // no postcode
	ProblemUnknownCountry  = "unknown_country"      // no country of ISO 3166-1
	ProblemHashOfNothing   = "hash_of_nothing"      // the hash of "" or of a placeholder
	ProblemDamagedHash     = "damaged_hash"         // hexadecimal digits, but not 64: SHA-1, a hash cut off …
	ProblemUnsupportedHash = "unsupported_hash"     // MD5
	ProblemNotHashed       = "must_not_be_hashed"   // a hash where Meta wants the value itself
	ProblemInvalidIP       = "invalid_ip"           // no public IP address
	ProblemInvalidClickID  = "invalid_click_id"     // fbc or fbp without Meta's form
	ProblemInvalidLeadID   = "invalid_lead_id"      // not 15 to 17 digits
	ProblemInvalidID       = "invalid_id"           // another id without its form
	ProblemInvalidValue    = "invalid_value"        // no finite decimal number
	ProblemUnknownCurrency = "unknown_currency"     // no current code of ISO 4217
	ProblemNoCurrency      = "value_without_money"  // a value left out with its currency
	ProblemEventName       = "event_name_corrected" // a standard event's name in another spelling
	ProblemURLCleaned      = "personal_data_in_url" // parameters taken out of a URL
	ProblemInvalidTime     = "invalid_time"         // no point in time
)

// problemTexts says what is wrong and what would be right, by code.
var problemTexts = map[string][2]string{
	ProblemPlaceholder:     {"a placeholder stands where the value belongs; it was left out", "leave the field out when there is no value"},
	ProblemInvalidEmail:    {"it is not an e-mail address and was left out", "send an address such as name@example.com"},
	ProblemInvalidPhone:    {"it is not a possible phone number and was left out", "send the number with its country code, such as +16505551212"},
	ProblemNoCountryCode:   {"the number has no country code that can be recognised; Meta will hardly match it", "send the number with its country code, or set a default country"},
	ProblemInvalidName:     {"it is not a name (no letters in it) and was left out", "send the name in its own letters"},
	ProblemUnknownGender:   {"Meta knows only f and m; the value was left out", "send f or m, or leave the field out"},
	ProblemInvalidDate:     {"it is not a full date of birth from 1900 to today and was left out", "send YYYYMMDD"},
	ProblemInvalidPlace:    {"it has no letters and was left out", "send the place's name"},
	ProblemInvalidZip:      {"it is not a postcode and was left out", "send the postcode as written in its country"},
	ProblemUnknownCountry:  {"it is not a country and was left out", "send the two letters of ISO 3166-1, such as us"},
	ProblemHashOfNothing:   {"it is the hash of an empty value or a placeholder and was left out", "hash only where there is a value"},
	ProblemDamagedHash:     {"it looks like a hash, but is not the 64 digits of SHA-256; it was left out", "send the value itself, or its SHA-256 hash in hexadecimal"},
	ProblemUnsupportedHash: {"it is an MD5 hash, and Meta asks for SHA-256", "send the value itself, or its SHA-256 hash in hexadecimal"},
	ProblemNotHashed:       {"it is a hash, but Meta wants the value itself; it was left out", "send the value without hashing it"},
	ProblemInvalidIP:       {"it is not the public address of a client and was left out", "send the visitor's own IPv4 or IPv6 address"},
	ProblemInvalidClickID:  {"it does not have Meta's form and was left out", "send the cookie as it is: fb.1.{milliseconds}.{id}"},
	ProblemInvalidLeadID:   {"it does not have the 15 to 17 digits of a lead id and was left out", "send the lead id as text, with all its digits"},
	ProblemInvalidID:       {"it does not have the form of this id and was left out", "send the id as Meta or the device gave it"},
	ProblemInvalidValue:    {"it is not a plain decimal number and was left out", "send digits with a point, such as 1234.50"},
	ProblemUnknownCurrency: {"it is not a current currency code and was left out", "send a code of ISO 4217, such as USD"},
	ProblemNoCurrency:      {"it was left out, because its currency is not known", "send the value together with a code of ISO 4217"},
	ProblemEventName:       {"it is a standard event in another spelling; Meta's spelling is sent", "use Meta's spelling, such as AddToWishlist"},
	ProblemURLCleaned:      {"the address carried what may be personal data; it was taken out", "keep personal data out of addresses"},
	ProblemBadSourceURL:    {"it is not the full address of a page and was left out", "send the whole address, with https://"},
	ProblemInvalidTime:     {"it is not a point in time", "send whole seconds since 1970, such as 1759270000"},
}

func warning(field, code string) Problem {
	texts := problemTexts[code]
	return Problem{Field: field, Code: code, Severity: SeverityWarning, Reason: texts[0], Fix: texts[1]}
}
