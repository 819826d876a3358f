package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tag works on a page that allows scripts and requests by address alone, and asks for
// nothing else.
func TestBrowserAStrictPolicy(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	gate := s.gate(gateHost)
	s.headers = http.Header{"Content-Security-Policy": {"default-src 'none'; script-src 'self' " + gate + "; connect-src " + gate + "; img-src " + s.graphURL + "; form-action 'self'"}}
	s.put("/", `<script src="/own.js"></script>`+s.tagFrom(gateHost), `<form action="/thanks" method="post" data-capiloop-event="Lead"><button id="b">Send</button></form>`)
	s.put("/thanks", "", "")
	s.pages["/own.js"] = `window.violations=[];addEventListener('securitypolicyviolation',function(e){violations.push(e.violatedDirective+' '+e.blockedURI)});
		window.capiloop=function(){(capiloop.q=capiloop.q||[]).push(arguments)};` + pixelSnippet + `
		window.__tcfapi=function(what,version,tell){if(what==='addEventListener')tell({gdprApplies:true,eventStatus:'tcloaded',purpose:{consents:{1:true,3:true,4:true,7:true}},vendor:{consents:{}}},true)};
		capiloop('track','Purchase',{order_id:'A-1',value:10,currency:'EUR'});`
	v := s.visit(t)
	v.open("/?fbclid=IwAR2F4-dbP0l7Mn1IawQQ")
	sent := s.told(t, "Purchase", 1)[0] // so the framework's reader has come, too
	require.Contains(t, sent.Keys, "fbc")
	v.until("window.pixelCalls && pixelCalls.length>=2")
	v.until("document.querySelector('[name=event_id]').value")
	require.Empty(t, v.texts("violations"))
	v.do("document.getElementById('b').click()")
	require.Equal(t, []string{s.told(t, "Lead", 1)[0].EventID}, s.posted("event_id"))
}

// template is the template of Tag Manager, by its sections.
func template(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("../integrations/google-tag-manager/template.tpl")
	require.NoError(t, err)
	head := regexp.MustCompile(`(?m)^___([A-Z_]+)___$`)
	found := map[string]string{}
	at := head.FindAllSubmatchIndex(raw, -1)
	for i, m := range at {
		end := len(raw)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		found[string(raw[m[2]:m[3]])] = string(raw[m[1]:end])
	}
	return found
}

const (
	sandboxed   = "SANDBOXED_JS_FOR_WEB_TEMPLATE"
	permissions = "WEB_PERMISSIONS"
)

// Tag Manager can read the template, and each API that it uses has its permission.
func TestBrowserTheTagManagersTemplateIsSound(t *testing.T) {
	t.Parallel()
	parts := template(t)
	for _, name := range []string{"INFO", "TEMPLATE_PARAMETERS", permissions} {
		require.True(t, json.Valid([]byte(parts[name])), name)
	}
	var granted []struct {
		Instance struct {
			Key struct {
				ID string `json:"publicId"`
			} `json:"key"`
		} `json:"instance"`
	}
	require.NoError(t, json.Unmarshal([]byte(parts[permissions]), &granted))
	has := map[string]bool{}
	for _, g := range granted {
		has[g.Instance.Key.ID] = false
	}
	// What Google's page of the template APIs says.
	needs := map[string]string{
		"createArgumentsQueue": "access_globals", "injectScript": "inject_script", "isConsentGranted": "access_consent", "addConsentListener": "access_consent",
		"logToConsole": "logging", "queryPermission": "", "encodeUriComponent": "", "getType": "", "callLater": "",
	}
	for _, m := range regexp.MustCompile(`require\('(\w+)'\)`).FindAllStringSubmatch(parts[sandboxed], -1) {
		permission, known := needs[m[1]]
		require.True(t, known, "the test does not know %s", m[1])
		if permission != "" {
			require.Contains(t, has, permission, m[1])
			has[permission] = true
		}
	}
	for permission, used := range has {
		require.True(t, used, "%s is asked for and not needed", permission)
	}
	// Its parameters are those that the code reads.
	var fields []struct{ Name string }
	require.NoError(t, json.Unmarshal([]byte(parts["TEMPLATE_PARAMETERS"]), &fields))
	for _, f := range fields {
		require.Contains(t, parts[sandboxed], "data."+f.Name)
	}
	require.NotRegexp(t, `\b(window|document|setTimeout|new|async|class|this)\b\W`, regexp.MustCompile(`//.*|'[^'\n]*'`).ReplaceAllString(parts[sandboxed], ""), "the sandbox has none of these")
}

// tagManager stands in for Tag Manager: the APIs of templates, with their permissions.
const tagManager = `
window.states={ad_storage:false,ad_user_data:false};window.listeners={};window.results=[];
function allowed(id){return PERMISSIONS.filter(function(p){return p.instance.key.publicId===id})[0].instance.param[0].value.listItem}
function global(key,rights){
	var item=allowed('access_globals').filter(function(i){return i.mapValue[0].string===key})[0];
	rights.forEach(function(r){if(!item||!item.mapValue[r].boolean)throw new Error('no permission for '+key)});
	return key.split('.').reduce(function(on,name){return on&&on[name]},window)}
function put(key,value){var names=key.split('.'),last=names.pop();names.reduce(function(on,name){return on[name]},window)[last]=value}
function consentType(type){if(!allowed('access_consent').some(function(i){return i.mapValue[0].string===type&&i.mapValue[1].boolean}))throw new Error('no permission for '+type)}
function mayLoad(url){return allowed('inject_script').some(function(i){return url.indexOf(i.string.replace('*',''))===0})}
var apis={
	createArgumentsQueue:function(key,list){
		var there=global(key,[1,2]);global(list,[1,2]);
		if(typeof there==='function')return there;
		var queue=[];put(key,function(){queue.push(arguments)});put(list,queue);return window[key]},
	injectScript:function(url,done,failed){
		if(!mayLoad(url))throw new Error('no permission for '+url);
		var s=document.createElement('script');s.async=true;s.src=url;s.onload=done;s.onerror=failed;document.head.appendChild(s)},
	queryPermission:function(id,url){return id==='inject_script'&&mayLoad(url)},
	isConsentGranted:function(type){consentType(type);return states[type]},
	addConsentListener:function(type,tell){consentType(type);(listeners[type]=listeners[type]||[]).push(tell)},
	callLater:function(f){setTimeout(f,0)},
	getType:function(v){return Array.isArray(v)?'array':v===null?'null':typeof v},
	encodeUriComponent:encodeURIComponent,logToConsole:function(){results.push('logged')}};
function run(data){
	data.gtmOnSuccess=function(){results.push('success')};data.gtmOnFailure=function(){results.push('failure')};
	new Function('require','data',TEMPLATE)(function(name){if(!apis[name])throw new Error('no API '+name);return apis[name]},data)}
function decide(answers){for(var type in answers){var was=states[type];states[type]=answers[type];if(was!==answers[type])(listeners[type]||[]).forEach(function(tell){tell(type,answers[type])})}}
`

func quoted(t *testing.T, text string) string {
	t.Helper()
	raw, err := json.Marshal(text)
	require.NoError(t, err)
	return string(raw)
}

// What Tag Manager reports by the template reaches Meta once the visitor agrees, whether
// it came before the script or after it.
func TestBrowserTagManager(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	gate := s.gate(firstHost)
	parts := template(t)
	require.Contains(t, parts[permissions], "https://signals.example.com/*")
	mock := strings.Replace(tagManager, "TEMPLATE", quoted(t, parts[sandboxed]), 1)
	mock = strings.ReplaceAll(mock, "PERMISSIONS", strings.Replace(strings.TrimSpace(parts[permissions]), "https://signals.example.com/*", gate+"/*", 1))
	s.put("/", `<script>`+strings.ReplaceAll(mock, "</", `<\/`)+`
		run({does:'event',eventName:'Lead',eventId:'row-17',fields:[{name:'content_name',value:'trial'},{name:'value',value:''}]});
		run({does:'load',server:'https://not.allowed.test',site:'shop'});
		run({does:'load',server:'`+gate+`',site:'shop',consentOfTagManager:true});</script>`, "")
	v := s.visit(t)
	v.open("/")
	v.do(`run({does:'event',eventName:'Purchase',fields:[{name:'order_id',value:'A-1'},{name:'value',value:'12.50'},{name:'currency',value:'EUR'}],contentIds:'p1, p2'})`)
	v.until("results.length>=5")
	require.Equal(t, []string{"success", "logged", "failure", "success", "success"}, v.texts("results"))
	v.quiet()
	require.Empty(t, s.server("Lead"), "nobody has agreed")
	require.Empty(t, v.device())

	v.do("decide({ad_storage:true,ad_user_data:true})")
	lead := s.told(t, "Lead", 1)[0]
	require.Equal(t, "row-17", lead.EventID)
	require.Contains(t, string(lead.Payload), `"content_name":"trial"`)
	order := s.told(t, "Purchase", 1)[0]
	require.Equal(t, "A-1", order.EventID)
	require.Equal(t, json.Number("12.5"), order.Value)
	require.Contains(t, string(order.Payload), `["p1","p2"]`)

	v.do("decide({ad_user_data:false})")
	v.until("!Object.keys(localStorage).some(function(k){return /capiloop/.test(k)})")
	v.do("run({does:'event',eventName:'Lead',eventId:'row-18'})")
	v.quiet()
	require.Len(t, s.server("Lead"), 1, "taken back")
}

// Shopify runs the custom pixel in a frame without an origin; its purchase has the order's
// id, also when the gateway was away for a moment.
func TestBrowserShopifysPixel(t *testing.T) {
	t.Parallel()
	s := newWebsite(t)
	s.stop(t)
	s.lines = strings.Replace(s.lines, "origins: [", `origins: ["null", `, 1)
	s.configure(t, datasetA)
	s.start(t)
	raw, err := os.ReadFile("../integrations/shopify/custom-pixel.js")
	require.NoError(t, err)
	code := strings.NewReplacer("https://signals.example.com", s.gate(firstHost), "YOUR-SITE-KEY", "shop").Replace(string(raw))
	s.pages["/pixel.js"] = `var told={},jar={_fbp:'fb.1.1764556799000.123456789',_fbc:'fb.1.1764556799000.IwAR2F4-dbP0l7Mn1IawQQ'};
		var analytics={subscribe:function(name,f){told[name]=f}},browser={cookie:{get:function(name){return Promise.resolve(jar[name]||'')}}};
		(function(){` + code + `})();
		told.checkout_completed({id:'sh-1',name:'checkout_completed',timestamp:new Date().toISOString(),context:{document:{location:{href:'` + s.at("/checkouts/c/1/thank-you") + `'},referrer:''}},
			data:{checkout:{order:{id:'450789469'},token:'t0k',email:'jane` + rawDomain + `',phone:null,currencyCode:'EUR',totalPrice:{amount:49.9,currencyCode:'EUR'},
				lineItems:[{id:'l1',variant:{id:'v1',product:{id:'632910392'}}},{id:'l2',variant:null}]}}});`
	s.put("/frame", `<script src="/pixel.js"></script>`, "")
	s.put("/checkouts/c/1/thank-you", "", `<iframe sandbox="allow-scripts" src="/frame"></iframe>`)
	s.answers(http.StatusServiceUnavailable)
	v := s.visit(t)
	began := time.Now()
	v.do("location.href='" + s.at("/checkouts/c/1/thank-you") + "'")
	s.eventually(t, 10e9, "an attempt", func() bool { return s.reported("450789469") == 1 })
	s.answers(0)
	sent := s.told(t, "Purchase", 1)[0]
	require.Equal(t, "450789469", sent.EventID)
	require.Equal(t, json.Number("49.9"), sent.Value)
	require.InDelta(t, began.Unix(), sent.EventTime, 30)
	require.Subset(t, sent.Keys, []string{"em", "fbc", "fbp", "client_ip_address", "client_user_agent"})
	require.Contains(t, string(sent.Payload), `["632910392","l2"]`)
	require.Contains(t, string(sent.Payload), `"event_source_url":"`+s.at("/checkouts/c/1/thank-you")+`"`)

	v.do("location.reload()")
	s.eventually(t, 10e9, "the second report", func() bool { return s.reported("450789469") >= 3 })
	v.quiet()
	s.told(t, "Purchase", 1)
}
