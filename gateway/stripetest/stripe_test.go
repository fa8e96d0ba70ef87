package stripetest

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"

	"onced"
)

func TestTheSameKeyChargesOnce(t *testing.T) {
	w := begin(t)
	first, err := w.create("order-1", 1299)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.create("order-1", 1299)
	if err != nil {
		t.Fatal(err)
	}
	if first.ID != "pi_1" || again.ID != first.ID || again.Amount != 1299 {
		t.Fatalf("the first is %s, the second %s", first.ID, again.ID)
	}
	for want, got := range map[string]string{"false": first.LastResponse.Header.Get("Idempotent-Replayed"), "true": again.LastResponse.Header.Get("Idempotent-Replayed")} {
		if got != want {
			t.Errorf("Idempotent-Replayed is %q, expected %q", got, want)
		}
	}
	if got := again.LastResponse.Header["Idempotency-Replayed"]; got != nil {
		t.Errorf("the other contracts' marker is there: %q", got)
	}
	w.expect(1, 1)
}

// The client makes a key for each call, and sends it again by itself when an answer is lost.
func TestALostAnswerChargesOnce(t *testing.T) {
	w := begin(t)
	w.lose.Store(2)
	got, err := w.create("", 1299)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "pi_1" || got.LastResponse.Header.Get("Idempotent-Replayed") != "true" || w.sent.Load() != 3 {
		t.Fatalf("got %s after %d requests, %v", got.ID, w.sent.Load(), got.LastResponse.Header)
	}
	w.expect(1, 1)
	if _, err := w.create("", 1299); err != nil { // another call is another key
		t.Fatal(err)
	}
	w.expect(2, 2)
}

func TestAReusedKeyIsAnIdempotencyError(t *testing.T) {
	w := begin(t)
	if _, err := w.create("order-1", 1299); err != nil {
		t.Fatal(err)
	}
	_, err := w.create("order-1", 9999)
	var e *stripe.IdempotencyError
	if got := stripeError(t, err); got.Type != stripe.ErrorTypeIdempotency || got.HTTPStatusCode != 400 || got.Msg == "" || !errors.As(err, &e) {
		t.Fatalf("the client says %v", err)
	}
	if w.sent.Load() != 2 {
		t.Fatalf("the client sent %d requests: it tried again what cannot succeed", w.sent.Load())
	}
	w.expect(1, 1)
}

func TestAKeyInUse(t *testing.T) {
	w := begin(t)
	type result struct {
		intent *stripe.PaymentIntent
		err    error
	}
	first := make(chan result, 1)
	go func() {
		intent, err := w.create("order-1", amountSlow)
		first <- result{intent, err}
	}()
	<-w.api.begun
	_, err := w.create("order-1", amountSlow)
	if got := stripeError(t, err); got.Code != stripe.ErrorCodeIdempotencyKeyInUse || got.HTTPStatusCode != 409 || got.LastResponse.Header.Get("Retry-After") != "1" || got.LastResponse.Header.Get("Stripe-Should-Retry") != "true" {
		t.Fatalf("the client says %v", err)
	}
	close(w.api.finish)
	if r := <-first; r.err != nil || r.intent.ID != "pi_1" {
		t.Fatalf("the first got %+v, %v", r.intent, r.err)
	}
	if again, err := w.create("order-1", amountSlow); err != nil || again.ID != "pi_1" {
		t.Fatalf("afterwards: %+v, %v", again, err)
	}
	w.expect(1, 1)
}

func TestADeclineIsReplayed(t *testing.T) {
	w := begin(t)
	for range 2 {
		_, err := w.create("order-1", amountDeclined)
		var e *stripe.CardError
		if got := stripeError(t, err); got.Code != stripe.ErrorCodeCardDeclined || !errors.As(err, &e) || e.DeclineCode != "generic_decline" {
			t.Fatalf("the client says %v", err)
		}
	}
	w.expect(1, 0)
}

// Also a 5xx is kept, so that what may have happened is not done again under its key.
func TestAServerErrorIsReplayed(t *testing.T) {
	w := begin(t)
	for i := range 2 {
		_, err := w.create("order-1", amountBroken)
		got := stripeError(t, err)
		if got.Type != stripe.ErrorTypeAPI || got.HTTPStatusCode != 500 || got.LastResponse.Header.Get("Stripe-Should-Retry") != "false" {
			t.Fatalf("the client says %v", err)
		}
		if replayed := got.LastResponse.Header.Get("Idempotent-Replayed"); replayed != map[int]string{0: "false", 1: "true"}[i] {
			t.Fatalf("answer %d says Idempotent-Replayed: %s", i+1, replayed)
		}
	}
	w.expect(1, 0)
}

// A page that is no envelope is tried again by the client, and comes again out of the record.
func TestAPageThatIsNoEnvelope(t *testing.T) {
	w := begin(t)
	if _, err := w.create("order-1", amountBrokenPage); err == nil {
		t.Fatal("no error")
	}
	if w.sent.Load() != 3 {
		t.Fatalf("the client sent %d requests", w.sent.Load())
	}
	w.expect(1, 0)
}

// A 429 is not kept: the client tries a lock time-out again, and that is done.
func TestALockTimeoutIsTriedAgain(t *testing.T) {
	w := begin(t)
	got, err := w.create("order-1", amountBusy)
	if err != nil || got.ID != "pi_1" {
		t.Fatalf("got %+v, %v", got, err)
	}
	w.expect(2, 1)
}

// A connection that dies after the request went out leaves an outcome that nobody can tell. It is told as
// such, and never run again.
func TestAnUnknownOutcome(t *testing.T) {
	w := begin(t)
	for _, status := range []int{504, 409} {
		_, err := w.create("order-1", amountCut)
		var e *stripe.APIError
		if got := stripeError(t, err); got.HTTPStatusCode != status || got.Code != "outcome_unknown" || !errors.As(err, &e) {
			t.Fatalf("expected %d, the client says %v", status, err)
		}
	}
	w.expect(1, 1)
}

// The refusals of the gateway are errors that the client understands, and nothing runs.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		problem *onced.Problem
		status  int
		kind    stripe.ErrorType
		code    stripe.ErrorCode
	}{
		{&onced.Problem{Code: onced.CodeUnavailable, Detail: "no majority"}, 503, stripe.ErrorTypeAPI, "unavailable"},
		{&onced.Problem{Code: onced.CodeRateLimited, RetryAfter: time.Second, Detail: "too many"}, 429, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeRateLimit},
		{&onced.Problem{Code: onced.CodeForbidden, Detail: "not you"}, 403, stripe.ErrorTypeInvalidRequest, "forbidden"},
	} {
		w := begin(t)
		w.refuse.Store(tc.problem)
		_, err := w.create("order-1", 1299)
		if got := stripeError(t, err); got.HTTPStatusCode != tc.status || got.Type != tc.kind || got.Code != tc.code || got.Msg != tc.problem.Detail || got.DocURL == "" {
			t.Errorf("%s: the client says %v", tc.problem.Code, err)
		}
		w.expect(0, 0)
	}
}

func TestLongKeys(t *testing.T) {
	w := begin(t)
	for range 2 {
		if got, err := w.create(strings.Repeat("k", 255), 1299); err != nil || got.ID != "pi_1" {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	w.expect(1, 1)
}

// The account is the credential: two of them never see each other's keys.
func TestTwoAccounts(t *testing.T) {
	w := begin(t)
	if got, err := w.create("order-1", 1299); err != nil || got.ID != "pi_1" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got, err := createWith(w.newClient("sk_test_two"), "order-1", 1299); err != nil || got.ID != "pi_2" {
		t.Fatalf("got %+v, %v", got, err)
	}
	w.expect(2, 2)
}

func TestReadingPassesThrough(t *testing.T) {
	w := begin(t)
	for range 2 {
		got, err := w.client.V1PaymentIntents.Retrieve(t.Context(), "pi_1", nil)
		if err != nil || got.ID != "pi_1" {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, marked := got.LastResponse.Header[http.CanonicalHeaderKey("Idempotent-Replayed")]; marked {
			t.Fatalf("it is marked: %v", got.LastResponse.Header)
		}
	}
	w.expect(0, 0)
}
