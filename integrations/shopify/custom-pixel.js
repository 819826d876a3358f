// A custom pixel for Shopify: Settings -> Customer events -> Add custom pixel. Set the permission to
// "Required: Marketing" there, so that Shopify runs it only for visitors who agreed.
//
// Checkout and thank-you pages let no theme code run, and a custom pixel lives in a sandboxed frame
// whose origin is "null": put "null" into this source's origins, beside your shop's own.
const SERVER = 'https://signals.example.com';
const SITE = 'YOUR-SITE-KEY';

// A server that is away for a moment is asked again while the page is open: five times, within a minute.
const send = (report, attempt) => {
  const again = () => attempt < 5 && setTimeout(() => send(report, attempt + 1), 1000 * 2 ** attempt);
  const body = JSON.stringify({...report, sent: Date.now()});
  // Text, so that the browser asks for no permission first.
  fetch(SERVER + '/t', {method: 'POST', body, keepalive: true}).then((answer) => (answer.status === 429 || answer.status >= 500) && again(), again);
};

analytics.subscribe('checkout_completed', async (event) => {
  const checkout = event.data.checkout;
  const page = event.context.document.location.href;
  const at = new Date(event.timestamp).getTime();
  const report = {
    v: 1,
    site: SITE,
    consent: {ads: 'granted', by: 'site'},
    events: [{
      event_name: 'Purchase',
      at: at,
      event_source_url: page,
      referrer_url: event.context.document.referrer,
      custom_data: {
        // The event is called by its order, so that a reload of the page counts once.
        order_id: String(checkout.order && checkout.order.id || checkout.token),
        value: checkout.totalPrice.amount,
        currency: checkout.currencyCode,
        content_type: 'product',
        content_ids: checkout.lineItems.map((line) => String(line.variant && line.variant.product && line.variant.product.id || line.id)),
      },
      user_data: {
        em: checkout.email || undefined,
        ph: checkout.phone || undefined,
        fbc: (await browser.cookie.get('_fbc')) || undefined,
        fbp: (await browser.cookie.get('_fbp')) || undefined,
      },
    }],
  };
  send(report, 0);
});
