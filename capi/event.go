package capi

import "encoding/json"

// Event is one server event: what happened, when, to whom. Field names and
// meanings are those of Meta's page "Server event parameters"; the zero value of
// a field means that it is not sent.
type Event struct {
	EventName      string       // event_name: a standard name (Lead, Purchase …) or a name of your own
	EventTime      int64        // event_time: Unix seconds; 0 means not given
	EventID        string       // event_id: equal to the Pixel's eventID of the same action
	ActionSource   ActionSource // action_source
	EventSourceURL string       // event_source_url: the page's full address, for website events
	ReferrerURL    string       // referrer_url
	OptOut         *bool        // opt_out: use for attribution only

	UserData          UserData
	CustomData        *CustomData
	AppData           *AppData
	OriginalEventData *OriginalEventData
	AttributionData   *AttributionData

	// DataProcessingOptions is nil when not given, empty for "explicitly no
	// Limited Data Use", or ["LDU"]. Country and State accompany it; 0 is a value
	// of theirs (Meta geolocates) and is sent. Page "Data processing options".
	DataProcessingOptions        []string
	DataProcessingOptionsCountry *int
	DataProcessingOptionsState   *int

	CustomerSegmentation      string // customer_segmentation
	MessagingChannel          string // messaging_channel: whatsapp, messenger, instagram
	AdvertiserTrackingEnabled *bool  // advertiser_tracking_enabled at event level, as some SDKs send it
	AdvancedMeasurementTable  string // advanced_measurement_table, known from Meta's SDKs only

	// Unknown holds the members of a decoded event that Meta's page does not have;
	// they are never sent. A server with fields of its own finds them here.
	Unknown map[string]json.RawMessage

	decoded Problems // what decoding left out; Normalise reports it
}

// ActionSource tells where an event took place; the page "Server event
// parameters" lists the values.
type ActionSource string

// The values of action_source that Meta knows.
const (
	ActionSourceEmail             ActionSource = "email"
	ActionSourceWebsite           ActionSource = "website"
	ActionSourceApp               ActionSource = "app"
	ActionSourcePhoneCall         ActionSource = "phone_call"
	ActionSourceChat              ActionSource = "chat"
	ActionSourcePhysicalStore     ActionSource = "physical_store"
	ActionSourceSystemGenerated   ActionSource = "system_generated"
	ActionSourceBusinessMessaging ActionSource = "business_messaging"
	ActionSourceOther             ActionSource = "other"
)

// UserData holds the match keys: what lets Meta find the person. The list keys
// take raw values or SHA-256 hashes until Normalise has run; afterwards they hold
// only hashes. Page "Customer information parameters".
type UserData struct {
	Email      []string // em
	Phone      []string // ph
	FirstName  []string // fn
	LastName   []string // ln
	Gender     []string // ge
	BirthDate  []string // db
	City       []string // ct
	State      []string // st
	Zip        []string // zp
	Country    []string // country
	ExternalID []string // external_id

	// The six keys below are emitted by Meta's SDKs but stand on no page.
	First5Name   []string // f5first
	First5Last   []string // f5last
	FirstInitial []string // fi
	BirthDay     []string // dobd
	BirthMonth   []string // dobm
	BirthYear    []string // doby

	// Never hashed.
	ClientIPAddress  string // client_ip_address
	ClientUserAgent  string // client_user_agent
	FBC              string // fbc: fb.{subdomain index}.{milliseconds}.{fbclid}
	FBP              string // fbp
	SubscriptionID   string // subscription_id
	FBLoginID        string // fb_login_id: decimal digits, sent as an integer
	LeadID           string // lead_id: decimal digits (15 to 17), sent as an integer
	AnonID           string // anon_id
	MADID            string // madid
	PageID           string // page_id
	PageScopedUserID string // page_scoped_user_id
	CTWAClid         string // ctwa_clid
	IGAccountID      string // ig_account_id
	IGSID            string // ig_sid
	IGBusinessID     string // instagram_business_account_id
	WABusinessID     string // whatsapp_business_account_id
	AppUserID        string // app_user_id
}

// CustomData holds what the event was about. Page "Custom data parameters".
type CustomData struct {
	// Value is a decimal number as text ("142.52"), kept exact; "" means not
	// given, "0" is sent. Validate refuses what is not a finite number.
	Value            string
	Currency         string // ISO 4217
	ContentIDs       []string
	Contents         []Content
	ContentType      string
	ContentName      string
	ContentCategory  string
	Status           string
	DeliveryCategory string
	NumItems         string // integer as text
	OrderID          string
	SearchString     string
	PredictedLTV     string // decimal as text
	NetRevenue       string // decimal as text
	ItemNumber       string
	LeadEventSource  string // lead_event_source: the CRM's name
	EventSource      string // event_source: "crm" for Conversion Leads events

	// Extra holds custom properties, each as its JSON value. A property named
	// like a standard one never overrides it.
	Extra map[string]json.RawMessage
}

// Content is one product of contents.
type Content struct {
	ID               string
	Quantity         string // number as text
	ItemPrice        string // decimal as text
	DeliveryCategory string
	Title            string
	Description      string
	Brand            string
	Category         string
	Extra            map[string]json.RawMessage
}

// AppData holds what Meta asks for with app events. Page "App events".
type AppData struct {
	AdvertiserTrackingEnabled  *bool
	ApplicationTrackingEnabled *bool
	ExtInfo                    []string // 16 positions, "" as filler; [0] is a2 or i2, [4] the OS version
	Extra                      map[string]json.RawMessage
}

// OriginalEventData names an earlier event that this one completes. Page
// "Append attribution".
type OriginalEventData struct {
	EventName string
	EventTime int64
	OrderID   string
	EventID   string
	Extra     map[string]json.RawMessage
}

// AttributionData is Meta's append-attribution beta; only the four documented
// fields are typed, the SDKs' further ones are carried through in Extra.
type AttributionData struct {
	AdID             string
	TouchpointTS     int64  // touchpoint_ts, Unix seconds
	AttributionShare string // 0 to 1, decimal as text
	AttributionValue string // decimal as text
	Extra            map[string]json.RawMessage
}
