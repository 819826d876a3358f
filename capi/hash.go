package capi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const hashLength = 2 * sha256.Size

// HashText hashes a normalised text as Meta asks: SHA-256 over its UTF-8 bytes, in
// lower-case hexadecimal digits. Of "" it makes "", never the hash of nothing, which
// would be shared by everybody.
//
// Page "Customer information parameters".
func HashText(normalised string) string {
	if normalised == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(normalised))
	var digits [hashLength]byte
	hex.Encode(digits[:], sum[:])
	return string(digits[:])
}

// IsHash tells whether s has the form of a SHA-256 hash: 64 hexadecimal digits of
// any case, with or without the appendix of Meta's parameter builder (a dot and 2 or
// 8 characters; page "Parameter Builder Library"). It says nothing about what was
// hashed: the hash of nothing has this form too, but Normalise leaves it out.
func IsHash(s string) bool {
	if len(s) < hashLength || !isHex(s[:hashLength]) {
		return false
	}
	return len(s) == hashLength || isAppendix(s[hashLength:])
}

func isAppendix(s string) bool {
	if len(s) != 3 && len(s) != 9 || s[0] != '.' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !isASCIIAlnum(c) && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func isHex(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (s[i] < '0' || s[i] > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}

// arrivedHashed looks whether a value came hashed. It returns the hash as it is to
// be sent, or the code of the problem that makes it unusable; both are "" for a
// value that is no hash.
//
// An MD5 hash comes back with a problem: every library of Meta's passes 32 digits
// on, but Meta's error 2804016 asks for SHA-256.
func arrivedHashed(key Key, s string) (hash, code string) {
	if len(s) < 32 {
		return "", ""
	}
	if IsHash(s) {
		hash = strings.ToLower(s[:hashLength]) + s[hashLength:] // the appendix is case sensitive
		return usableHash(hash)
	}
	if isHex(s) {
		switch {
		case len(s) == 32:
			return strings.ToLower(s), ProblemUnsupportedHash
		case key != KeyExternalID: // an id may have any form
			return "", ProblemDamagedHash
		}
		return "", ""
	}
	if sum := fromBase64(s); sum != nil && key != KeyExternalID {
		return usableHash(hex.EncodeToString(sum))
	}
	return "", ""
}

// fromBase64 recognises a SHA-256 hash written in base64 with its padding.
func fromBase64(s string) []byte {
	if len(s) != 44 || s[43] != '=' {
		return nil
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		if sum, err := e.DecodeString(s); err == nil && len(sum) == sha256.Size {
			return sum
		}
	}
	return nil
}

func usableHash(hash string) (usable, code string) {
	for _, word := range emptyHashes {
		if hash[:hashLength] == word {
			return "", ProblemHashOfNothing
		}
	}
	return hash, ""
}

// emptyHashes are the hashes of nothing and of the words that programs write where
// a value is missing. They identify everybody.
var emptyHashes = [...]string{
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", // the empty string
	HashText(" "),
	HashText("null"),
	HashText("undefined"),
	HashText("none"),
	HashText("n/a"),
	HashText("unknown"),
	HashText("(not set)"),
	HashText("notset"),
	HashText("[object object]"),
	HashText("[object Object]"),
	HashText("objectobject"),
}
