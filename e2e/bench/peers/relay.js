// A relay as people build them with Meta's Node SDK: takes the same events over HTTP
// and sends them on. node relay.js ADDRESS:PORT GRAPH MODE [FILE]
//   sync     one call an event, answered after Graph's answer
//   memory   answered at once, sent in batches; lost when the process ends
//   durable  each event committed to SQLite (FULL) before the answer, sent in batches
'use strict'
const http = require('http')
const sdk = require('facebook-nodejs-business-sdk')
const axios = require('axios')

const [address, graph, mode, file] = process.argv.slice(2)
Object.defineProperty(sdk.FacebookAdsApi, 'GRAPH', { get: () => graph })
sdk.FacebookAdsApi.init('no-token-at-all', 'en_US', false)
axios.defaults.httpAgent = new http.Agent({ keepAlive: true }) // the SDK's own has none: this flatters it
axios.interceptors.request.use((c) => {
  if (!new URL(c.url, graph).hostname.startsWith('127.')) throw new Error('not on this machine: ' + c.url)
  return c
})

const lists = {
  em: 'setEmails', ph: 'setPhones', fn: 'setFirstNames', ln: 'setLastNames', ge: 'setGenders', db: 'setDatesOfBirth',
  ct: 'setCities', st: 'setStates', zp: 'setZips', country: 'setCountries', external_id: 'setExternalIds',
}

function eventOf (e) {
  const user = new sdk.UserData()
  for (const k in lists) if (e.user_data[k]) user[lists[k]](e.user_data[k])
  user.setClientIpAddress(e.user_data.client_ip_address).setClientUserAgent(e.user_data.client_user_agent)
    .setFbc(e.user_data.fbc).setFbp(e.user_data.fbp)
  const c = e.custom_data
  const custom = new sdk.CustomData().setCurrency(c.currency).setValue(c.value).setContentName(c.content_name)
    .setContentCategory(c.content_category).setContentIds(c.content_ids).setContentType(c.content_type).setNumItems(c.num_items)
  return new sdk.ServerEvent().setEventName(e.event_name).setEventTime(e.event_time).setEventId(e.event_id)
    .setActionSource(e.action_source).setEventSourceUrl(e.event_source_url).setUserData(user).setCustomData(custom)
}

const send = (events) => new sdk.EventRequest('no-token-at-all', '1234567890').setEvents(events).execute()

let take
if (mode === 'sync') {
  take = (list) => Promise.all(list.map((e) => send([eventOf(e)])))
} else if (mode === 'memory') {
  const waiting = []
  let busy = false
  const drain = async () => {
    busy = true
    while (waiting.length) await send(waiting.splice(0, 1000))
    busy = false
  }
  take = (list) => {
    for (const e of list) waiting.push(eventOf(e))
    if (!busy) setImmediate(drain)
    busy = true
  }
} else {
  const db = require('better-sqlite3')(file)
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.exec('CREATE TABLE queue (id INTEGER PRIMARY KEY, event_id TEXT UNIQUE, body TEXT, sent INTEGER NOT NULL DEFAULT 0)')
  db.exec('CREATE INDEX waiting ON queue (id) WHERE sent = 0')
  const insert = db.prepare('INSERT OR IGNORE INTO queue (event_id, body) VALUES (?, ?)')
  const next = db.prepare('SELECT id, body FROM queue WHERE sent = 0 ORDER BY id LIMIT 1000')
  const mark = db.prepare('UPDATE queue SET sent = 1 WHERE sent = 0 AND id <= ?')
  take = db.transaction((list) => { for (const e of list) insert.run(e.event_id, JSON.stringify(e)) })
  const drain = async () => {
    const rows = next.all()
    if (rows.length) {
      await send(rows.map((r) => eventOf(JSON.parse(r.body))))
      mark.run(rows[rows.length - 1].id)
    }
    setTimeout(drain, rows.length ? 0 : 20)
  }
  drain()
}

const [host, port] = address.split(':')
http.createServer((req, res) => {
  const parts = []
  req.on('data', (p) => parts.push(p))
  req.on('end', async () => {
    let status = 202
    let text = '{"accepted":1}'
    try {
      if (req.method === 'POST') {
        const body = JSON.parse(Buffer.concat(parts))
        await take(body.data || [body])
      } else status = 200
    } catch (e) {
      status = 502
      text = String(e.message || e).slice(0, 300)
    }
    res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) })
    res.end(text)
  })
}).listen(Number(port), host)
