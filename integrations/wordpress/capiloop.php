<?php
/**
 * Plugin Name: Capiloop
 * Description: Loads the Capiloop tag and reports WooCommerce orders under the id that the shop's server uses too.
 * Version: 1.0
 * License: Apache-2.0
 *
 * Put this file into wp-content/mu-plugins/ and set the two constants, here or in wp-config.php.
 */

defined('ABSPATH') || exit;

// The address of your Capiloop server, best on the shop's own domain, and the site key that
// `capiloop sources` shows.
defined('CAPILOOP_SERVER') || define('CAPILOOP_SERVER', 'https://signals.example.com');
defined('CAPILOOP_SITE') || define('CAPILOOP_SITE', 'YOUR-SITE-KEY');

add_action('wp_enqueue_scripts', function () {
	$src = add_query_arg('site', rawurlencode(CAPILOOP_SITE), CAPILOOP_SERVER . '/t.js');
	wp_enqueue_script('capiloop', $src, array(), null, array('strategy' => 'async', 'in_footer' => false));
	// Calls made before the script is there wait in a queue.
	wp_add_inline_script('capiloop', 'window.capiloop=window.capiloop||function(){(capiloop.q=capiloop.q||[]).push(arguments)};', 'before');
});

// An order is reported once it is placed, under its number: a reload of the page,
// a second tab and the shop's own server all name the same one.
add_action('woocommerce_thankyou', function ($order_id) {
	$order = wc_get_order($order_id);
	if (!$order || $order->has_status(array('failed', 'cancelled', 'pending'))) {
		return;
	}
	$ids = array();
	foreach ($order->get_items() as $item) {
		$ids[] = (string) $item->get_product_id();
	}
	$data = array(
		'order_id'     => (string) $order->get_order_number(),
		'value'        => (float) $order->get_total(),
		'currency'     => $order->get_currency(),
		'content_ids'  => $ids,
		'content_type' => 'product',
	);
	wp_print_inline_script_tag('capiloop("track","Purchase",' . wp_json_encode($data, JSON_HEX_TAG | JSON_HEX_AMP) . ');');
});
