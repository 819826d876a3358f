// Sends events by Meta's official Node SDK to a gateway in Graph's place, and prints the
// answers as JSON. Only the host differs from what Meta's pages show.
//
//   node send.mjs http://127.0.0.1:8080 KEY DATASET KIND
import bizSdk from 'facebook-nodejs-business-sdk';

const { AppData, CustomData, EventRequest, ExtendedDeviceInfo, FacebookAdsApi, ServerEvent, UserData } = bizSdk;
const [gateway, key, dataset, kind] = process.argv.slice(2);

Object.defineProperty(FacebookAdsApi, 'GRAPH', { get: () => gateway });
FacebookAdsApi.init(key);

const now = Math.floor(Date.now() / 1000);
const person = (n) => new UserData().setEmail(`person-${n}@people.example.com`).setPhone('77015550142');
const base = (name, id) => new ServerEvent().setEventName(name).setEventTime(now).setEventId(id);

const kinds = {
  purchase: () => [
    base('Purchase', 'node-purchase')
      .setActionSource('website')
      .setEventSourceUrl('https://shop.example.com/thanks')
      .setUserData(person(1).setClientIpAddress('203.0.113.7').setClientUserAgent('Mozilla/5.0').setFbp(`fb.1.${now}000.1234567890`))
      .setCustomData(new CustomData().setValue(19.9).setCurrency('eur').setOrderId('node-order-1')),
  ],
  lead: () => [
    base('Lead', 'node-lead')
      .setActionSource('system_generated')
      .setUserData(person(2).setLeadId('1234567890123456'))
      .setCustomData(new CustomData().setCustomProperties({ event_source: 'crm', lead_event_source: 'Test CRM' })),
  ],
  app: () => {
    const device = new ExtendedDeviceInfo().setExtInfoVersion('a2').setAppPackageName('com.example.app').setShortVersion('1.0')
      .setLongVersion('1.0.0').setOsVersion('14').setDeviceModelName('Pixel').setLocale('en_US').setTimezoneAbbreviation('PDT')
      .setCarrier('none').setScreenWidth('1080').setScreenHeight('1920').setScreenDensity('2').setCpuCoreCount('8')
      .setTotalDiskSpaceGb('64').setFreeDiskSpaceGb('32').setDeviceTimeZone('America/Los_Angeles');
    return [
      base('Search', 'node-app')
        .setActionSource('app')
        .setUserData(person(3).setMadid('38400000-8cf0-11bd-b23e-10b96e40000d'))
        .setAppData(new AppData().setAdvertiserTrackingEnabled(true).setApplicationTrackingEnabled(true).setExtinfo(device)),
    ];
  },
  optout: () => [
    base('Contact', 'node-optout').setActionSource('phone_call').setOptOut(true).setUserData(person(4))
      .setDataProcessingOptions(['LDU']).setDataProcessingOptionsCountry(0).setDataProcessingOptionsState(0),
  ],
  batch: () => Array.from({ length: 50 }, (_, n) =>
    base('Lead', `node-batch-${n}`).setActionSource('system_generated').setUserData(person(n))),
};

const request = new EventRequest(key, dataset).setEvents(kinds[kind]());
try {
  const answer = await request.execute();
  console.log(JSON.stringify({ events_received: answer.events_received, messages: answer.messages, fbtrace_id: answer.fbtrace_id }));
} catch (error) {
  // What the SDK makes of an error of Graph.
  console.log(JSON.stringify({ name: error.name, status: error.status, message: error.message, response: error.response }));
  process.exitCode = 1;
}
