package crm

// ScriptAnswer is the exception to the rule that no redirect is followed.
var ScriptAnswer = scriptAnswer
