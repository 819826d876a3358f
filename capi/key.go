package capi

// Key is the name of a match key, as Meta writes it in user_data.
type Key string

// The match keys. Pages "Customer information parameters" and "Business
// messaging"; the six from f5first to doby are known from Meta's SDKs only.
const (
	KeyEmail        Key = "em"
	KeyPhone        Key = "ph"
	KeyFirstName    Key = "fn"
	KeyLastName     Key = "ln"
	KeyGender       Key = "ge"
	KeyBirthDate    Key = "db"
	KeyCity         Key = "ct"
	KeyState        Key = "st"
	KeyZip          Key = "zp"
	KeyCountry      Key = "country"
	KeyExternalID   Key = "external_id"
	KeyFirst5Name   Key = "f5first"
	KeyFirst5Last   Key = "f5last"
	KeyFirstInitial Key = "fi"
	KeyBirthDay     Key = "dobd"
	KeyBirthMonth   Key = "dobm"
	KeyBirthYear    Key = "doby"

	KeyClientIPAddress  Key = "client_ip_address"
	KeyClientUserAgent  Key = "client_user_agent"
	KeyFBC              Key = "fbc"
	KeyFBP              Key = "fbp"
	KeySubscriptionID   Key = "subscription_id"
	KeyFBLoginID        Key = "fb_login_id"
	KeyLeadID           Key = "lead_id"
	KeyAnonID           Key = "anon_id"
	KeyMADID            Key = "madid"
	KeyPageID           Key = "page_id"
	KeyPageScopedUserID Key = "page_scoped_user_id"
	KeyCTWAClid         Key = "ctwa_clid"
	KeyIGAccountID      Key = "ig_account_id"
	KeyIGSID            Key = "ig_sid"
	KeyIGBusinessID     Key = "instagram_business_account_id"
	KeyWABusinessID     Key = "whatsapp_business_account_id"
	KeyAppUserID        Key = "app_user_id"
)

// Hashed tells whether the values of the key leave as hashes.
func (k Key) Hashed() bool { return new(UserData).list(k) != nil }
