package capi

import (
	"net/url"
	"slices"
	"strings"
)

// CleanURL takes out of a page's address what may be personal data: query parameters
// named like it (email, first_name, phone, lat …), parameters that hold an e-mail address
// or an international phone number, a user name before the host, and e-mail addresses in
// the path or fragment. Click ids
// and utm_ parameters stay, as does everything else in its order. It returns the
// names of what was removed, never the values. Meta's Business Tools Terms forbid
// sending such data unhashed.
func CleanURL(raw string) (cleaned string, removed []string) {
	s, fragment, hasFragment := strings.Cut(strings.TrimSpace(raw), "#")
	s, query, hasQuery := strings.Cut(s, "?")
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		host, path, _ := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			s = scheme + "://" + rest[at+1:]
			removed = append(removed, "user")
			rest = rest[at+1:]
		}
		if holdsAddress(path) {
			s = scheme + "://" + withoutAddresses(rest)
			removed = append(removed, "path")
		}
	}
	if hasQuery {
		kept, names := cleanQuery(query)
		removed = append(removed, names...)
		if kept != "" {
			s += "?" + kept
		}
	}
	if !hasFragment {
		return s, removed
	}
	kept, names := fragment, []string(nil)
	if strings.Contains(fragment, "=") {
		before, params, ok := strings.Cut(fragment, "?")
		if !ok {
			before, params = "", fragment
		}
		var clean string
		clean, names = cleanQuery(params)
		if kept = clean; ok {
			kept = strings.TrimSuffix(before+"?"+clean, "?")
		}
	}
	if holdsAddress(kept) {
		kept, names = "", append(names, "fragment")
	}
	removed = append(removed, names...)
	if kept != "" {
		s += "#" + kept
	}
	return s, removed
}

func cleanQuery(query string) (kept string, removed []string) {
	if query == "" {
		return "", nil
	}
	parts := strings.Split(query, "&")
	parts = slices.DeleteFunc(parts, func(part string) bool {
		name, value, _ := strings.Cut(part, "=")
		if text, err := url.QueryUnescape(name); err == nil {
			name = text
		}
		if !isPersonalParameter(name) && (isClickParameter(name) || !holdsAddress(value) && !holdsPhone(value)) {
			return false
		}
		removed = append(removed, name)
		return true
	})
	return strings.Join(parts, "&"), removed
}

func isClickParameter(name string) bool {
	switch strings.ToLower(name) {
	case "fbclid", "gclid", "gbraid", "wbraid", "msclkid", "ttclid", "twclid", "li_fat_id", "yclid", "ctwa_clid":
		return true
	}
	return false
}

// isPersonalParameter looks at a parameter's name without case and separators; of a
// name in brackets, customer[email], the last part counts.
func isPersonalParameter(name string) bool {
	if i := strings.LastIndexByte(name, '['); i >= 0 && !strings.HasPrefix(name[i:], "[]") {
		name = name[i+1:]
	}
	key := squeeze(name, letterRune)
	if personalParameters[key] {
		return true
	}
	for _, part := range []string{"email", "firstname", "lastname", "fullname", "phonenumber", "password", "dateofbirth", "birthdate"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}

var personalParameters = wordSet(`em mail emailaddress ph phone tel telephone mobile mobilephone cell cellphone msisdn whatsapp
	fn ln fname lname givenname surname familyname middlename name username user login nickname
	dob birthday birth gender sex ssn passport iban
	address street streetaddress addressline addr city town zip zipcode postcode postalcode
	lat lng lon latitude longitude latlng latlon geo coords coordinates geolocation
	pwd pass passwd secret token accesstoken authtoken apikey sessionid session jwt`)

// holdsAddress finds an e-mail address, plain or escaped.
func holdsAddress(s string) bool {
	if !strings.ContainsAny(s, "@%") {
		return false
	}
	for range 3 { // as it is, escaped, escaped twice
		lastDot := strings.LastIndexByte(s, '.')
		for i := 1; i < lastDot; i++ {
			if s[i] == '@' && isAddressByte(s[i-1]) && isASCIIAlnum(s[i+1]) {
				return true
			}
		}
		text, err := url.PathUnescape(s)
		if err != nil {
			break
		}
		s = text
	}
	return false
}

// holdsPhone finds a number that is written internationally, +49 170 1234567 or with tel:
// before it. A plus may have become a blank. What has no plus may be any number, such as
// an order's.
func holdsPhone(s string) bool {
	text, err := url.PathUnescape(s)
	if err != nil {
		text = s
	}
	text = strings.TrimPrefix(strings.ToLower(text), "tel:")
	if text == "" || text[0] != '+' && text[0] != ' ' {
		return false
	}
	digits := 0
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			digits++
		case strings.IndexByte(" +-.()/", c) < 0:
			return false
		}
	}
	return digits >= 8 && digits <= 15 // E.164
}

func isAddressByte(c byte) bool {
	return isASCIIAlnum(c) || strings.IndexByte("._-+%'", c) >= 0 || c >= 0x80
}

// withoutAddresses puts a hyphen in place of the parts of a path that are e-mail
// addresses.
func withoutAddresses(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if i > 0 && holdsAddress(part) {
			parts[i] = "-"
		}
	}
	return strings.Join(parts, "/")
}
