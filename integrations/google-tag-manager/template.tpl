___INFO___

{
  "type": "TAG",
  "id": "cvt_temp_public_id",
  "version": 1,
  "securityGroups": [],
  "displayName": "Capiloop",
  "categories": ["ADVERTISING", "CONVERSIONS", "LEAD_GENERATION"],
  "brand": {
    "id": "brand_dummy",
    "displayName": "Capiloop"
  },
  "description": "Loads the Capiloop tag from your own server and reports events with one id for the Pixel and the server.",
  "containerContexts": [
    "WEB"
  ]
}


___TEMPLATE_PARAMETERS___

[
  {
    "type": "SELECT",
    "name": "does",
    "displayName": "What this tag does",
    "macrosInSelect": false,
    "selectItems": [
      {"value": "load", "displayValue": "Load Capiloop (once, on all pages)"},
      {"value": "event", "displayValue": "Report an event"}
    ],
    "simpleValueType": true,
    "defaultValue": "load"
  },
  {
    "type": "TEXT",
    "name": "server",
    "displayName": "Address of your Capiloop server",
    "simpleValueType": true,
    "help": "Without a slash at its end. The same address must stand in this template's permissions (Injects scripts).",
    "valueHint": "https://signals.example.com",
    "valueValidators": [
      {"type": "NON_EMPTY"},
      {"type": "REGEX", "args": ["https://[^/ ]+"], "errorMessage": "Give https:// and the host, nothing behind it."}
    ],
    "enablingConditions": [{"paramName": "does", "paramValue": "load", "type": "EQUALS"}]
  },
  {
    "type": "TEXT",
    "name": "site",
    "displayName": "Site key",
    "simpleValueType": true,
    "help": "The site of your website source; the command capiloop sources shows it.",
    "valueValidators": [{"type": "NON_EMPTY"}],
    "enablingConditions": [{"paramName": "does", "paramValue": "load", "type": "EQUALS"}]
  },
  {
    "type": "CHECKBOX",
    "name": "consentOfTagManager",
    "checkboxText": "Take the visitor's decision from Tag Manager's consent state (ad_storage and ad_user_data)",
    "simpleValueType": true,
    "defaultValue": false,
    "help": "Needed where your consent banner is a Tag Manager template. Leave it off where the banner calls gtag('consent', …) or is a TCF banner: Capiloop reads these itself. Careful: Tag Manager takes a state that nobody has set for granted.",
    "enablingConditions": [{"paramName": "does", "paramValue": "load", "type": "EQUALS"}]
  },
  {
    "type": "TEXT",
    "name": "eventName",
    "displayName": "Event name",
    "simpleValueType": true,
    "help": "One of Meta's, such as Lead, Contact, Schedule, Purchase, or a name of your own.",
    "valueValidators": [{"type": "NON_EMPTY"}],
    "enablingConditions": [{"paramName": "does", "paramValue": "event", "type": "EQUALS"}]
  },
  {
    "type": "TEXT",
    "name": "eventId",
    "displayName": "Event id (optional)",
    "simpleValueType": true,
    "help": "Only where your server reports the same event under an id of its own. With an order id it is not needed.",
    "enablingConditions": [{"paramName": "does", "paramValue": "event", "type": "EQUALS"}]
  },
  {
    "type": "SIMPLE_TABLE",
    "name": "fields",
    "displayName": "What is known about it",
    "help": "value, currency, order_id, content_name, content_category … as Meta's custom_data calls them.",
    "simpleTableColumns": [
      {"defaultValue": "", "displayName": "Field", "name": "name", "type": "TEXT"},
      {"defaultValue": "", "displayName": "Value", "name": "value", "type": "TEXT"}
    ],
    "enablingConditions": [{"paramName": "does", "paramValue": "event", "type": "EQUALS"}]
  },
  {
    "type": "TEXT",
    "name": "contentIds",
    "displayName": "Content ids (optional, a list or a text with commas)",
    "simpleValueType": true,
    "enablingConditions": [{"paramName": "does", "paramValue": "event", "type": "EQUALS"}]
  }
]


___SANDBOXED_JS_FOR_WEB_TEMPLATE___

const createArgumentsQueue = require('createArgumentsQueue');
const encodeUriComponent = require('encodeUriComponent');
const getType = require('getType');
const injectScript = require('injectScript');
const isConsentGranted = require('isConsentGranted');
const addConsentListener = require('addConsentListener');
const callLater = require('callLater');
const queryPermission = require('queryPermission');
const logToConsole = require('logToConsole');

// Calls made before the script is there wait in capiloop.q.
const capiloop = createArgumentsQueue('capiloop', 'capiloop.q');

const load = () => {
  if (data.consentOfTagManager) {
    const decide = (changed) => {
      const granted = isConsentGranted('ad_storage') && isConsentGranted('ad_user_data');
      if (granted || changed) {
        capiloop('consent', granted ? 'grant' : 'deny');
      }
    };
    // A banner changes one after the other; the decision is what both are once it is done.
    const later = () => callLater(() => decide(true));
    addConsentListener('ad_storage', later);
    addConsentListener('ad_user_data', later);
    decide(false);
  }
  const url = data.server + '/t.js?site=' + encodeUriComponent(data.site);
  if (!queryPermission('inject_script', url)) {
    logToConsole('Capiloop: put ' + data.server + '/* into the permission "Injects scripts" of this template.');
    data.gtmOnFailure();
    return;
  }
  injectScript(url, data.gtmOnSuccess, data.gtmOnFailure, url);
};

const report = () => {
  const custom = {};
  const rows = data.fields || [];
  for (let i = 0; i < rows.length; i++) {
    const value = rows[i].value;
    if (rows[i].name && value !== '' && value !== undefined && value !== null) {
      custom[rows[i].name] = value;
    }
  }
  if (data.contentIds) {
    custom.content_ids = getType(data.contentIds) === 'array' ? data.contentIds : data.contentIds.split(',').map((id) => id.trim());
  }
  capiloop('track', data.eventName, custom, data.eventId ? {eventID: data.eventId} : {});
  data.gtmOnSuccess();
};

if (data.does === 'event') {
  report();
} else {
  load();
}


___WEB_PERMISSIONS___

[
  {
    "instance": {
      "key": {"publicId": "access_globals", "versionId": "1"},
      "param": [
        {
          "key": "keys",
          "value": {
            "type": 2,
            "listItem": [
              {
                "type": 3,
                "mapKey": [
                  {"type": 1, "string": "key"}, {"type": 1, "string": "read"}, {"type": 1, "string": "write"}, {"type": 1, "string": "execute"}
                ],
                "mapValue": [
                  {"type": 1, "string": "capiloop"}, {"type": 8, "boolean": true}, {"type": 8, "boolean": true}, {"type": 8, "boolean": true}
                ]
              },
              {
                "type": 3,
                "mapKey": [
                  {"type": 1, "string": "key"}, {"type": 1, "string": "read"}, {"type": 1, "string": "write"}, {"type": 1, "string": "execute"}
                ],
                "mapValue": [
                  {"type": 1, "string": "capiloop.q"}, {"type": 8, "boolean": true}, {"type": 8, "boolean": true}, {"type": 8, "boolean": false}
                ]
              }
            ]
          }
        }
      ]
    },
    "clientAnnotations": {"isEditedByUser": true},
    "isRequired": true
  },
  {
    "instance": {
      "key": {"publicId": "inject_script", "versionId": "1"},
      "param": [
        {"key": "urls", "value": {"type": 2, "listItem": [{"type": 1, "string": "https://signals.example.com/*"}]}}
      ]
    },
    "clientAnnotations": {"isEditedByUser": true},
    "isRequired": true
  },
  {
    "instance": {
      "key": {"publicId": "access_consent", "versionId": "1"},
      "param": [
        {
          "key": "consentTypes",
          "value": {
            "type": 2,
            "listItem": [
              {
                "type": 3,
                "mapKey": [{"type": 1, "string": "consentType"}, {"type": 1, "string": "read"}, {"type": 1, "string": "write"}],
                "mapValue": [{"type": 1, "string": "ad_storage"}, {"type": 8, "boolean": true}, {"type": 8, "boolean": false}]
              },
              {
                "type": 3,
                "mapKey": [{"type": 1, "string": "consentType"}, {"type": 1, "string": "read"}, {"type": 1, "string": "write"}],
                "mapValue": [{"type": 1, "string": "ad_user_data"}, {"type": 8, "boolean": true}, {"type": 8, "boolean": false}]
              }
            ]
          }
        }
      ]
    },
    "clientAnnotations": {"isEditedByUser": true},
    "isRequired": true
  },
  {
    "instance": {
      "key": {"publicId": "logging", "versionId": "1"},
      "param": [
        {"key": "environments", "value": {"type": 1, "string": "debug"}}
      ]
    },
    "clientAnnotations": {"isEditedByUser": true},
    "isRequired": true
  }
]


___TESTS___

scenarios:
- name: Loads the script of the site
  code: |-
    const mockData = {does: 'load', server: 'https://signals.example.com', site: 'shop key'};
    mock('injectScript', (url, onSuccess) => {
      assertThat(url).isEqualTo('https://signals.example.com/t.js?site=shop%20key');
      onSuccess();
    });
    runCode(mockData);
    assertApi('gtmOnSuccess').wasCalled();
- name: Reports an event
  code: |-
    const mockData = {does: 'event', eventName: 'Purchase', fields: [{name: 'value', value: '12.50'}, {name: 'currency', value: 'EUR'}, {name: 'order_id', value: ''}]};
    mock('createArgumentsQueue', () => (what, name, custom) => {
      assertThat(what).isEqualTo('track');
      assertThat(name).isEqualTo('Purchase');
      assertThat(custom).isEqualTo({value: '12.50', currency: 'EUR'});
    });
    runCode(mockData);
    assertApi('gtmOnSuccess').wasCalled();


___NOTES___

Put your server's address into the permission "Injects scripts" in place of https://signals.example.com/*.
