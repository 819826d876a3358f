package capi

// catalogue is the table of Graph's errors as they concern the Conversions API,
// lead ads and the reads around them. Pages "Marketing API error codes", "Graph API:
// handling errors" and "Rate limiting"; subcodes that stand on no page are known
// from answers that others have published. Not written to after the start.
var catalogue = []Explanation{
	// Trouble that passes.
	retryEntry(1, 0, "Meta has an internal error",
		"something failed on Meta's side, perhaps an outage"),
	retryEntry(1, 99, "Meta could not work the request out",
		"Meta's side failed; for reports it can also mean a level or field that does not go together"),
	retryEntry(2, 0, "Meta's service is not available at the moment",
		"Meta's side is down or overloaded"),
	retryEntry(100, 1487390, "Meta could not do it at the moment",
		"Meta calls it permanent, but a plain repeat is known to succeed"),
	retryEntry(21009, 0, "the dataset is not ready for uploads yet",
		"Meta is still preparing the dataset"),

	// Limits.
	throttledEntry(4, 0, "the app has made too many calls", "the limit counts all calls of the app within an hour", OwnerYou),
	throttledEntry(4, 1504022, "too many report calls", "Meta limits reports (insights) over all users of the app", OwnerYou),
	throttledEntry(4, 1504039, "too many report calls", "Meta limits reports (insights) over all users of the app", OwnerYou),
	throttledEntry(17, 0, "the user has made too many calls", "the limit counts the calls made with this user's token", OwnerYou),
	throttledEntry(17, 2446079, "the ad account gets too many calls", "the limit counts the calls for this ad account", OwnerYou),
	throttledEntry(32, 0, "the Page gets too many calls", "the limit counts the calls for this Page", OwnerYou),
	throttledEntry(341, 0, "a limit of the app is reached", "Meta counts actions of the app and asks to wait", OwnerYou),
	throttledEntry(613, 0, "Meta limits these calls", "without a subcode this can be Meta's protection against abuse; if it lasts, ask Meta's support to lift it", OwnerMeta),
	throttledEntry(613, 1487742, "too many calls for this ad account", "the limit counts the calls for this ad account", OwnerYou),
	throttledEntry(613, 5044001, "too many changes per second", "the limit counts changes per second", OwnerYou),
	throttledEntry(80000, 0, "a limit of the business is reached", "Meta limits calls by business and purpose; here reports (ads insights)", OwnerYou),
	throttledEntry(80003, 0, "a limit of the business is reached", "Meta limits calls by business and purpose; here custom audiences", OwnerYou),
	throttledEntry(80004, 0, "a limit of the business is reached", "Meta limits calls by business and purpose; here ads management, to which events count", OwnerYou),
	throttledEntry(80005, 0, "a limit of the business is reached", "Meta limits calls by business and purpose; here the reading of leads", OwnerYou),
	throttledEntry(80014, 0, "a limit of the business is reached", "Meta limits calls by business and purpose; here catalogue batches", OwnerYou),

	// Token.
	accessEntry(190, 0, "the access token is not valid", OwnerYou,
		"the token is mistyped, cut off, or was revoked",
		"generate a new token in Events Manager (dataset, Settings, Conversions API) and put it in"),
	accessEntry(190, 458, "the app was removed by the person whose token this is", OwnerClient,
		"the person has taken the app out of their account, which ends the token",
		"let the person log in to the app again, or use a system user's token, which depends on nobody"),
	accessEntry(190, 459, "the person whose token this is must pass a check of Meta's", OwnerClient,
		"Meta has locked the person's account until they confirm it",
		"let the person log in at facebook.com and follow the steps there, or use a system user's token"),
	accessEntry(190, 460, "the token ended with a change of password", OwnerClient,
		"the person has changed their password, or Meta ended the session for safety",
		"let the person log in to the app again, or use a system user's token"),
	accessEntry(190, 463, "the access token has expired", OwnerYou,
		"the token had an end date, which has passed",
		"generate a new token, best one of a system user without end date, and put it in"),
	accessEntry(190, 464, "the person whose token this is has not confirmed their account", OwnerClient,
		"Meta wants the account confirmed before its token works",
		"let the person confirm the account at facebook.com, or use a system user's token"),
	accessEntry(190, 467, "the access token is no longer valid", OwnerYou,
		"the session behind the token was ended",
		"generate a new token and put it in"),
	accessEntry(190, 492, "the person whose token this is has lost their role", OwnerClient,
		"the person has no role on the Page or in the business any more",
		"give the person the role back, or generate the token with someone who has it"),
	accessEntry(102, 0, "the session behind the token is not valid", OwnerYou,
		"the login that made the token has ended",
		"generate a new token and put it in"),
	accessEntry(104, 0, "the proof of the app secret is wrong", OwnerYou,
		"the app requires appsecret_proof, and the app secret is missing or is that of another app",
		"put in the app secret of the app to which the token belongs (App Dashboard, Settings, Basic)"),

	// Permission.
	accessEntry(3, 0, "the app may not do this", OwnerYou,
		"the app lacks the capability for this call",
		"use a token generated in Events Manager, which needs no app review, or ask for the capability in the App Dashboard"),
	accessEntry(10, 0, "the permission is missing or was taken away", OwnerClient,
		"the token lacks a permission for this object, or Meta wants the person's agreement renewed",
		"in Business Settings assign the dataset (or Page) to the system user with full use, then generate the token again"),
	accessEntry(200, 0, "the token may not use this object", OwnerClient,
		"the owner has not shared the object with the token's user, has ended the share, or a permission was not granted",
		"let the owner share the dataset (or Page) again in Business Settings, and assign the token's user to it"),
	accessEntry(270, 0, "the app has only development access", OwnerYou,
		"an app in development may use only what belongs to its own developers",
		"use a token generated in Events Manager, or ask for advanced access in the App Dashboard"),
	accessEntry(294, 0, "the permission ads_management is missing", OwnerYou,
		"the call needs ads_management and an app with access to the Marketing API",
		"generate the token with ads_management, or use a token generated in Events Manager"),
	accessEntry(368, 0, "Meta has blocked the action for a while", OwnerClient,
		"Meta sees a breach of its policies by the account, the Page or the app",
		"look at Account Quality (business.facebook.com/accountquality) and follow the steps there; it is tried again from time to time"),
	accessEntry(803, 0, "the id does not exist", OwnerYou,
		"the id or name in the address stands for nothing that this token can see",
		"compare the id with the one in Events Manager, character by character"),
	accessEntry(100, 33, "the dataset is not there for this token", OwnerClient,
		"the id is wrong, the token's user is not assigned to the dataset, or the owner has ended the share; the token itself can still be valid",
		"compare the dataset's id; then let the owner share the dataset again and assign the token's user to it"),
	accessEntry(100, 34, "the object is not there for this token", OwnerClient,
		"the id in the address is wrong, or the token may not see it",
		"compare the id, then the token's access to it"),
	accessEntry(100, 38, "the object is not there for this token", OwnerClient,
		"the id in the address is wrong, or the token may not see it",
		"compare the id, then the token's access to it"),

	// Faults of an event. Meta refuses the whole batch for one of them.
	{
		Code: 100, Title: "Meta refused a parameter", Class: ClassUnclear, Retried: HandlingApart, Owner: OwnerYou,
		Cause:    "one of the events has a field that Meta cannot take, or the token has lost its access: Meta uses this code for both",
		NextStep: "read Meta's own words below; if every event fails so, check the token's access to the dataset first",
	},
	payloadEntry(2804003, "the event is too old", "event_time is more than 7 days ago (62 days for physical_store)",
		"send events within an hour; an event that is too old cannot be sent any more, and its time must not be changed"),
	payloadEntry(2804009, "a Purchase has no value", "Meta takes no Purchase without value and currency",
		"map the amount and the currency where the Purchase is made"),
	payloadEntry(2804016, "personal data was not hashed", "a key that must be a SHA-256 hash came as it is; Meta refuses it",
		"send through the gateway, which hashes, or hash by Meta's rules at the source"),
	payloadEntry(2804050, "the event does not say who it is about", "no match key came, or only ones that fit too many people, such as country and browser",
		"add an e-mail, a phone, an external_id, fbp, fbc, a lead_id or the address of the client"),
	payloadEntry(2804036, "the lead id does not exist", "the lead_id is not that of a lead ad, has lost digits (spreadsheets do that), or the lead was deleted",
		"pass the lead id as text, with all its 15 to 17 digits"),
	payloadEntry(2804043, "the app event lacks the version of the system", "app_data.extinfo needs 16 entries, of which the fifth is the OS version",
		"fill extinfo as the page \"App events\" asks"),
	payloadEntry(2804066, "Meta does not take this name for a message event", "business messaging knows only LeadSubmitted, Purchase, AddToCart, InitiateCheckout and ViewContent",
		"map the stage to one of these names (LeadSubmitted, not Lead)"),
	payloadEntry(2804072, "the Page is not the one of the click", "page_id differs from the Page whose ad the ctwa_clid comes from",
		"send the page_id of the ad's Page"),
	payloadEntry(2804087, "the WhatsApp click id is not valid", "the ctwa_clid is cut off, changed or not from an ad",
		"pass ctwa_clid exactly as the message's referral has it"),
	payloadEntry(2804030, "a choice about Limited Data Use is missing", "an old upload wanted the Limited Data Use fields",
		"set data_processing_options, [] for none"),
	payloadEntry(2804001, "a value in the event is not valid", "the reason is not documented; a click id (fbc) that was cut off or wrapped twice is known to cause it",
		"read Meta's own words below and check fbc"),
	payloadEntry(2804004, "a value in the event is not valid", "the reason is not documented", "read Meta's own words below"),
	payloadEntry(2804007, "a value in the event is not valid", "the reason is not documented", "read Meta's own words below"),
	payloadEntry(2804008, "custom_data has a wrong form", "probably currency or contents", "check currency, value and contents"),
	payloadEntry(2804017, "a value in the event is not valid", "the reason is not documented", "read Meta's own words below"),
	payloadEntry(2804019, "a value in the event is not valid", "the reason is not documented", "read Meta's own words below"),
	payloadEntry(2804023, "custom_data has a wrong form", "probably currency or contents", "check currency, value and contents"),
	payloadEntry(2804048, "a value in the event is not valid", "the reason is not documented", "read Meta's own words below"),
	payloadEntry(1815356, "the list of events is not valid", "an old way of uploading; the reason stands inside Meta's answer", "read Meta's own words below"),
	payloadEntry(payloadFamilyFirst, "Meta refused an event", "the number belongs to the faults of an event, but no page describes it",
		"read Meta's own words below and correct the event at its source"),
}

func retryEntry(code, subcode int, title, cause string) Explanation {
	return Explanation{
		Code: code, Subcode: subcode, Title: title, Cause: cause, Owner: OwnerMeta,
		NextStep: nextStepOf(ClassRetry), Retried: HandlingRetried, Class: ClassRetry,
	}
}

func throttledEntry(code, subcode int, title, cause string, owner Owner) Explanation {
	return Explanation{
		Code: code, Subcode: subcode, Title: title, Cause: cause, Owner: owner,
		NextStep: nextStepOf(ClassThrottled), Retried: HandlingRetried, Class: ClassThrottled,
	}
}

func accessEntry(code, subcode int, title string, owner Owner, cause, next string) Explanation {
	return Explanation{
		Code: code, Subcode: subcode, Title: title, Cause: cause, Owner: owner,
		NextStep: next, Retried: HandlingWaits, Class: ClassAccess,
	}
}

func payloadEntry(subcode int, title, cause, next string) Explanation {
	return Explanation{
		Code: 100, Subcode: subcode, Title: title, Cause: cause, Owner: OwnerYou,
		NextStep: next, Retried: HandlingNever, Class: ClassPayload,
	}
}
