package capi

import (
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// A phone number in E.164 has 15 digits at most; fewer than 7 are no number that can
// be called from abroad.
const (
	fewestDigits = 7
	mostDigits   = 15
)

// phones is the rule of ph: digits only, no leading zeros, with country code (page
// "Customer information parameters"). National numbers get the code of the country
// and lose their trunk prefix. Without a country the digits are sent as Meta's
// builder does, with a warning.
func (f *facts) phones(raw string) (Normalised, string) {
	if digits := f.plainNumber(raw); digits != "" {
		return one(digits), ""
	}
	s := plainText(raw)
	if s == "" || isPlaceholder(s) {
		return Normalised{}, ProblemPlaceholder
	}
	if whole, ok := strings.CutSuffix(s, ".0"); ok && isDigits(strings.TrimLeft(whole, "+'")) { // from a spreadsheet
		s = whole
	}
	var n Normalised
	worst := ""
	for _, part := range splitNumbers(s) {
		digits, code := f.phone(part)
		if code != "" {
			worst = code
		}
		if digits == "" {
			continue
		}
		n.Texts = appendOnce(n.Texts, digits)
		n.also(olderForm(digits, code, part))
	}
	return n, worst
}

// plainNumber is the short way for numbers that arrive right already. It knows the
// ranges whose numbers have one length and cannot begin with a trunk prefix; for them
// the library would give the same digits. Without a plus they must be those of the
// locale's country, or of North America when there is none.
func (f *facts) plainNumber(raw string) string {
	s, plus := strings.CutPrefix(raw, "+")
	if plus {
		s = withoutSigns(s)
	}
	if len(s) < 11 || len(s) > 13 || !isDigits(s) {
		return ""
	}
	is := func(prefix string, length int, countries string) bool {
		return strings.HasPrefix(s, prefix) && len(s) == length &&
			(plus || f.country != "" && strings.Contains(countries, f.country) || f.country == "" && prefix == "1")
	}
	switch {
	case is("1", 11, "US CA") && s[1] >= '2' && s[4] >= '2' && !isOneDigit(s[1:]),
		is("447", 12, "GB"),
		is("79", 11, "RU"), is("77", 11, "KZ"),
		is("336", 11, "FR"), is("337", 11, "FR"),
		is("91", 12, "IN") && s[2] >= '6':
		return s
	}
	return ""
}

// withoutSigns takes away how people divide a number for reading, and "" if anything
// else is in it. A bracketed zero may be a trunk prefix; that is not for the short way.
func withoutSigns(s string) string {
	if isDigits(s) {
		return s
	}
	var room [2 * mostDigits]byte
	if len(s) > len(room) {
		return ""
	}
	digits := room[:0]
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			if c == '0' && i > 0 && (s[i-1] == '(' || s[i-1] == ' ' && strings.HasSuffix(s[:i], "( ")) {
				return ""
			}
			digits = append(digits, c)
		case len(digits) == 0 || c != ' ' && c != '-' && c != '.' && c != '(' && c != ')':
			return ""
		}
	}
	return string(digits)
}

// olderForm is what the sender may have meant or used before: a North American number
// without the 1, a Mexican mobile with the 1 that was dropped in 2019.
func olderForm(digits, code, part string) string {
	switch {
	case code == ProblemNoCountryCode && len(digits) == 10 && isNorthAmerican(digits) && onlyDigits(part) == digits:
		return "1" + digits
	case code == "" && len(digits) == 12 && strings.HasPrefix(digits, "52"):
		return "521" + digits[2:]
	}
	return ""
}

// isNorthAmerican tells whether ten digits have the form NXX-NXX-XXXX.
func isNorthAmerican(s string) bool { return len(s) == 10 && s[0] >= '2' && s[3] >= '2' }

// splitNumbers separates several numbers in one string. A sign that stands within one
// number (030/901820) leaves a part too short to be a number.
func splitNumbers(s string) []string {
	parts := strings.FieldsFunc(strings.ReplaceAll(s, " or ", "|"), func(r rune) bool {
		return r == '/' || r == ';' || r == ',' || r == '|' || r == '&'
	})
	if len(parts) < 2 {
		return []string{s}
	}
	for _, p := range parts {
		if len(onlyDigits(p)) < fewestDigits {
			return []string{s}
		}
	}
	return parts
}

// phone normalises one number. The digits can be there in spite of a problem.
func (f *facts) phone(s string) (digits, code string) {
	number, ok := cutExtension(s)
	if !ok {
		return "", ProblemInvalidPhone
	}
	written := onlyDigits(number)
	first := strings.IndexAny(number, "0123456789")
	if first < 0 || strings.Trim(written, "0") == "" {
		return "", ProblemPlaceholder
	}
	plus := strings.HasSuffix(strings.TrimRight(number[:first], " ("), "+")
	if isOneDigit(written) && len(written) >= fewestDigits {
		return "", ProblemPlaceholder
	}
	zeros := strings.HasPrefix(written, "00")
	if plus || zeros {
		abroad := onlyDigits(dropTrunkZero(number))
		if digits = international(strings.TrimLeft(abroad, "0")); digits != "" {
			return digits, ""
		}
		if plus {
			return "", ProblemInvalidPhone
		}
	}
	if f.country != "" {
		return f.national(written, zeros)
	}
	bare := strings.TrimLeft(written, "0")
	if bare == written {
		if digits, valid := parsePhone("+"+bare, ""); digits != "" && (valid || len(bare) == 11 && bare[0] == '1' && isNorthAmerican(bare[1:])) {
			return digits, ""
		}
	}
	if len(bare) < fewestDigits || len(bare) > mostDigits {
		return "", ProblemInvalidPhone
	}
	return bare, ProblemNoCountryCode
}

// national reads a number as one dials it in the country, then as one that has its
// country code already. With zeros in front it can only be one dialled abroad (0011 in
// Australia), and must be right.
func (f *facts) national(written string, zeros bool) (digits, code string) {
	home, homeValid := parsePhone(written, f.country)
	if home != "" && homeValid {
		return home, ""
	}
	// A trunk 0 from habit where the country has none: 0612 345 678 in Spain.
	if rest, zero := strings.CutPrefix(written, "0"); zero && !zeros {
		if home, valid := parsePhone(rest, f.country); valid {
			return home, ""
		}
	}
	if away, valid := parsePhone("+"+written, ""); away != "" && valid && written[0] != '0' {
		return away, ""
	}
	if home != "" && !zeros {
		return home, ""
	}
	return "", ProblemInvalidPhone
}

func international(written string) string {
	digits, _ := possiblePhone("+"+written, "")
	return digits
}

// possiblePhone asks the library of number plans: the digits of E.164 if the length
// is possible.
func possiblePhone(s, region string) (string, *phonenumbers.PhoneNumber) {
	number, err := phonenumbers.Parse(s, region)
	if err != nil || !phonenumbers.IsPossibleNumber(number) {
		return "", nil
	}
	digits := strings.TrimPrefix(phonenumbers.Format(number, phonenumbers.E164), "+")
	if len(digits) < fewestDigits || len(digits) > mostDigits || !isDigits(digits) {
		return "", nil
	}
	return digits, number
}

// parsePhone also tells whether the number lies in a range that is in use, which costs
// as much again.
func parsePhone(s, region string) (digits string, valid bool) {
	digits, number := possiblePhone(s, region)
	return digits, digits != "" && phonenumbers.IsValidNumber(number)
}

// cutExtension ends a number where letters or one of # , ; follow its digits. Letters
// among the digits (1-800-FLOWERS) make it none.
func cutExtension(s string) (number string, ok bool) {
	digits := 0
	for i, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case digits == 0, r == ' ', strings.ContainsRune("-.()+/'", r):
		case digits >= fewestDigits:
			return s[:i], true
		case r == '#' || r == ',' || r == ';' || letterRune(r):
			return "", false
		}
	}
	return s, true
}

// dropTrunkZero removes the bracketed zero of +44 (0)20, which is dialled only at
// home. In Italy the zero belongs to the number.
func dropTrunkZero(s string) string {
	before, after, ok := strings.Cut(strings.ReplaceAll(s, "( 0 )", "(0)"), "(0)")
	code := strings.TrimLeft(onlyDigits(before), "0")
	if !ok || len(code) == 0 || len(code) > 3 || code == "39" || code == "378" {
		return s
	}
	return before + after
}

func onlyDigits(s string) string {
	if isDigits(s) {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] >= '0' && s[i] <= '9' {
			out = append(out, s[i])
		}
	}
	return string(out)
}

func isOneDigit(s string) bool { return s != "" && strings.Trim(s, s[:1]) == "" }
