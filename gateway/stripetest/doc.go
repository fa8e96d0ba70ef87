// Package stripetest holds the gateway's contract stripe to Stripe's official Go client: it talks to a
// stand-in of Stripe's API that does not deduplicate, and only the gateway is between them.
//
// It is a module of its own, so that nobody who builds onced needs that client.
package stripetest
