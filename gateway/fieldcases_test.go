package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"onced"
)

// The table of this file says, byte for byte, what goes over the wire for each rule of the gateway's contract (§5.1 to 5.10) and for each
// field case of the groups C (what is stored), D (fidelity of a replay) and E (key and fingerprint): faults that
// users of other libraries and services reported, by their F numbers. Read a row as a conversation with
// one gateway. Where a case is more than a conversation, "also" names the tests that have the rest.

// spoken is one request and everything that comes back.
type spoken struct{ send, back string }

// fieldCase is one row.
type fieldCase struct {
	id    string // of the field case, or of the rule
	what  string
	route Route    // Match is POST /charge unless it is said
	says  []string // the upstream's answers, the last one again and again; "hangs" and "closes" are none
	left  string   // a request whose client hangs up as soon as the upstream has it
	turns []spoken
	runs  int
	heard string        // the upstream's last request, where it matters
	ahead time.Duration // of the cluster's clock, after the first turn
	stuck bool          // nothing is recorded while the conversation goes on
	also  []string
}

const okay = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// kept is an answer that is recorded, with the gateway's lines behind its own.
func kept(head, marker, body string) string {
	return fmt.Sprintf("HTTP/1.1 %sContent-Length: %d\r\nIdempotency-Expires: later\r\nIdempotency-Replayed: %s\r\nDate: now\r\nConnection: close\r\n\r\n%s", head, len(body), marker, body)
}

// unkept is an answer that is not recorded, or not whole.
func unkept(head, body string) string {
	return strings.Replace(kept(head, "false", body), "Idempotency-Expires: later\r\n", "", 1)
}

// passed is an answer of a request that is not protected: net/http's own order.
func passed(head, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%sDate: now\r\nConnection: close\r\n\r\n%s", len(body), head, body)
}

// refusing is one of the gateway's own; see plain for its body. more are further lines, sorted.
func refusing(status string, code onced.Code, more string) string {
	return "HTTP/1.1 " + status + "\r\nCache-Control: no-store\r\nContent-Length: n\r\nContent-Type: application/problem+json\r\n" + more +
		"Date: now\r\nConnection: close\r\n\r\n" + string(code) + " " + string(code.Info().Retry)
}

// plain replaces a refusal's body by its code and advice, and its length by n: the words may change.
func plain(raw string) string {
	head, body, _ := strings.Cut(raw, "\r\n\r\n")
	said := regexp.MustCompile(`"code":"(\w+)","retry":"(\w+)"`).FindStringSubmatch(body)
	if !strings.Contains(head, "application/problem+json") || said == nil {
		return raw
	}
	head = regexp.MustCompile(`Content-Length: \d+`).ReplaceAllString(head, "Content-Length: n")
	return head + "\r\n\r\n" + said[1] + " " + said[2]
}

const (
	replayedLine = "Idempotency-Replayed: true\r\n"
	firstLine    = "Idempotency-Replayed: false\r\n"
	laterLine    = "Idempotency-Expires: later\r\n"
)

var (
	unknownFirst = refusing("504 Gateway Timeout", onced.CodeOutcomeUnknown, firstLine)
	unknownAgain = refusing("409 Conflict", onced.CodeOutcomeUnknown, "Retry-After: 5\r\n")
	conflict     = refusing("409 Conflict", onced.CodeConflict, "")
	badKey       = refusing("400 Bad Request", onced.CodeKeyInvalid, "")
	noKey        = refusing("400 Bad Request", onced.CodeKeyRequired, "")
	noAccount    = refusing("401 Unauthorized", onced.CodeUnauthenticated, "")
	notKept      = refusing("409 Conflict", onced.CodeResponseNotKept, laterLine+replayedLine)
)

const jsonType = "Content-Type: application/json"

// keyed is a POST /charge of acme with these lines.
func keyed(lines ...string) string {
	return "POST /charge HTTP/1.1\r\nHost: pay.example\r\nX-Account: acme\r\n" + strings.Join(append(lines, "Content-Length: 0"), "\r\n") + "\r\n\r\n"
}

var fieldCases = []fieldCase{
	// The rules of the contract.
	{id: "5.1", what: "routes: the first that matches, by method and path; PUT only where it is named", route: Route{Match: "PUT /thing/{id}"}, says: []string{okay}, runs: 3, turns: []spoken{
		{"PUT /thing/7 HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n", kept("200 OK\r\n", "false", "ok")},
		{"PUT /thing/7 HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n", kept("200 OK\r\n", "true", "ok")},
		{post("/thing/7", "k", ""), passed("", "ok")},
		{"PUT /other HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", passed("", "ok")},
		{"PUT /thing/7 HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nContent-Length: 0\r\n\r\n", noKey},
	}, also: []string{"TestChoose", "TestSpellingsOfAPathOnTheWire", "TestMethodsThatAreNotProtected", "TestScopeOfARoute", "TestBadBlocksAreRefusedByName"}},
	{id: "5.1", what: "the account must be known before anything is looked up", says: []string{okay}, runs: 0, turns: []spoken{
		{"POST /charge HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n", noAccount},
		{"POST /charge HTTP/1.1\r\nHost: h\r\nX-Account: a\r\nX-Account: a\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n", noAccount},
	}, also: []string{"TestAccounts", "TestAnswersStayWithTheirAccount"}},
	{id: "5.2", what: "what is the same request: JSON by its meaning, literals as written", says: []string{okay}, runs: 1, turns: []spoken{
		{charge("k", `{"a":1,"b":[1,2]}`, jsonType), kept("200 OK\r\n", "false", "ok")},
		{charge("k", "{ \"b\": [1, 2],\n\"a\": 1 }", jsonType), kept("200 OK\r\n", "true", "ok")},
		{charge("k", `{"a":1.0,"b":[1,2]}`, jsonType), conflict},
		{charge("k", `{"a":1,"b":[2,1]}`, jsonType), conflict},
	}, also: []string{"TestFingerprintOptions", "TestRequestsInEveryCoding"}},
	{id: "5.3", what: "the replay is the stored answer, without what belongs to one connection, moment or person", says: []string{
		"HTTP/1.1 201 Created\r\nLocation: /c/7\r\nConnection: X-Hop\r\nX-Hop: 1\r\nSet-Cookie: s=1\r\nDate: Mon, 01 Jan 2001 00:00:00 GMT\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 2\r\n\r\nok"}, runs: 1, turns: []spoken{
		{charge("k", "x"), strings.Replace(kept("201 Created\r\nLocation: /c/7\r\nSet-Cookie: s=1\r\nDate: Mon, 01 Jan 2001 00:00:00 GMT\r\nX-A: 1\r\nX-A: 2\r\n", "false", "ok"), "Date: now\r\n", "", 1)},
		{charge("k", "x"), kept("201 Created\r\nLocation: /c/7\r\nX-A: 1\r\nX-A: 2\r\n", "true", "ok")},
	}, also: []string{"TestLinesKeepTheirOrder", "TestFramingOnTheWire", "TestAReplayIsReadable", "TestWhatIsNeverReplayed", "TestPagesCanReadRefusalsAndReplays"}},
	{id: "5.4", what: "the upstream gets the key, the attempt and the token, and who asked", says: []string{okay}, runs: 1, turns: []spoken{
		{charge("k", "x", "Onced-Token: 9", "Onced_Attempt: 9", "Connection: Idempotency-Key, X-Account"), kept("200 OK\r\n", "false", "ok")},
	}, heard: "POST /charge HTTP/1.1\r\nHost: pay.example\r\nContent-Length: 1\r\nForwarded: for=127.0.0.1;host=pay.example;proto=http\r\nIdempotency-Key: k\r\nOnced-Attempt: 1\r\nOnced-Token: 1\r\n" +
		"X-Account: acme\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: pay.example\r\nX-Forwarded-Proto: http\r\n\r\nx",
		also: []string{"TestForwardedOnTheWire", "TestWhoAskedIsToldOn", "TestAnUpstreamThatSpeaksHTTP2"}},
	{id: "5.5", what: "settled is stored", says: []string{"HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 2\r\n\r\nno", okay}, runs: 1, turns: []spoken{
		{charge("k", "x"), kept("422 Unprocessable Entity\r\n", "false", "no")},
		{charge("k", "x"), kept("422 Unprocessable Entity\r\n", "true", "no")},
	}, also: []string{"TestWhatAStatusDoes"}},
	{id: "5.5", what: "not sent frees the key", says: []string{"HTTP/1.1 425 Too Early\r\nContent-Length: 2\r\n\r\nno", okay}, runs: 2, turns: []spoken{
		{charge("k", "x"), unkept("425 Too Early\r\n", "no")},
		{charge("k", "x"), kept("200 OK\r\n", "false", "ok")},
	}, also: []string{"TestWhatAStatusDoes", "TestARefusedConnectionFreesTheKey", "TestNeverTwiceOverHTTP2"}},
	{id: "5.5", what: "unknown is held: the upstream's own 5xx for the first, 409 for the next", says: []string{"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno", okay}, runs: 1, turns: []spoken{
		{charge("k", "x"), unkept("500 Internal Server Error\r\n", "no")},
		{charge("k", "x"), unknownAgain},
	}, also: []string{"TestNoWholeAnswerIsUnknown", "TestOvertakenGetsTheStoredAnswer", "TestALostReplyOfComplete"}},
	{id: "5.5", what: "a protected request travels once, on a connection of its own", says: []string{"closes"}, runs: 1, turns: []spoken{
		{charge("k", ""), unknownFirst},
		{charge("k", ""), unknownAgain},
	}, also: []string{"TestNeverTwiceOnTheWire", "TestNeverTwiceOverHTTP2", "TestAnUpstreamThatDoesNotReadItsRequest"}},
	{id: "5.6", what: "a client that hangs up changes nothing (this is the client that comes back)", says: []string{okay}, runs: 1, left: charge("k", "x"), turns: []spoken{
		{charge("k", "x"), kept("200 OK\r\n", "true", "ok")},
	}, also: []string{"TestClientHangsUp", "TestClientHangsUpBeforeTheReservation", "TestAStreamThatIsResetChangesNothing", "TestEventStreamGoesOnWithoutItsClient"}},
	{id: "5.7", what: "slower than timeout is unknown", route: Route{Timeout: "50ms"}, says: []string{"hangs"}, runs: 1, turns: []spoken{
		{charge("k", "x"), unknownFirst},
		{charge("k", "x"), unknownAgain},
	}, also: []string{"TestLeaseIsRenewedWhileTheUpstreamRuns"}},
	{id: "5.7", what: "whoever asks is answered before the end, and finds the answer where the 202 says", says: []string{okay}, runs: 1, turns: []spoken{
		{charge("k", "x", async), "HTTP/1.1 202 Accepted\r\nCache-Control: no-store\r\nContent-Length: 79\r\nContent-Type: application/json\r\nIdempotency-Replayed: false\r\n" +
			"Location: /.onced/operations/k\r\nPreference-Applied: respond-async\r\nRetry-After: 1\r\nDate: now\r\nConnection: close\r\n\r\n" +
			`{"key":"k","scope":"","state":"in_progress","location":"/.onced/operations/k"}` + "\n"},
		{"GET /.onced/operations/k?wait=20s HTTP/1.1\r\nHost: pay.example\r\nX-Account: acme\r\n\r\n", "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n" + strings.TrimPrefix(kept("200 OK\r\n", "true", "ok"), "HTTP/1.1 200 OK\r\n")},
	}, also: []string{"TestRespondAsync", "TestOperationsSpeakTheirContract", "TestPagesCanFollowAnOperation", "TestWhatWasAcceptedLeavesTheConnectionAlone"}},
	{id: "5.8", what: "an answer beyond the limit is sent whole, and recorded as done", route: Route{MaxResponse: "1B"}, says: []string{"HTTP/1.1 201 Created\r\nZ: 1\r\nA: 1\r\nContent-Length: 2\r\n\r\nok"}, runs: 1, turns: []spoken{
		{charge("k", "x"), unkept("201 Created\r\nZ: 1\r\nA: 1\r\n", "ok")},
		{charge("k", "x"), notKept},
	}, also: []string{"TestALargeAnswerIsRecordedBeforeItsLastByte", "TestALargeAnswerThatIsCut", "TestEventStream", "TestLargeThingsPassWithFlatMemory", "TestALargeAnswerIsReplayed", "TestALargeAnswerIsChangedForItsClient"}},
	{id: "5.8", what: "a request beyond the limit reserves nothing", route: Route{MaxRequest: "1B"}, says: []string{okay}, runs: 1, turns: []spoken{
		{charge("k", "xx"), refusing("413 Request Entity Too Large", onced.CodeRequestTooLarge, "")},
		{charge("k", "x"), kept("200 OK\r\n", "false", "ok")},
	}, also: []string{"TestTooLargeRequestsReserveNothing", "TestNoBodyIsAskedForInVain"}},
	{id: "5.9", what: "the same payload under another key is counted, and never refused", says: []string{okay}, runs: 2, turns: []spoken{
		{charge("k", "x"), kept("200 OK\r\n", "false", "ok")},
		{charge("j", "x"), kept("200 OK\r\n", "false", "ok")},
	}, also: []string{"TestTheSamePayloadUnderAnotherKeyIsSuspected", "TestWhatIsNoRegeneration"}},
	{id: "5.10", what: "a record whose holder is gone is unknown once its lease is over", ahead: 31 * time.Second, stuck: true, says: []string{okay}, runs: 1, turns: []spoken{
		{charge("k", "x"), unknownFirst},
		{charge("k", "x"), unknownAgain},
	}, also: []string{"TestHoldAfterALapse", "TestADrainThatGivesUp"}},

	// C. What is stored.
	{id: "F28", what: "a transient 503 is not pinned: the key is free, and the next answer is stored", says: []string{"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno", okay}, runs: 2, turns: []spoken{
		{charge("k", "x"), unkept("503 Service Unavailable\r\nRetry-After: 7\r\n", "no")},
		{charge("k", "x"), kept("200 OK\r\n", "false", "ok")},
		{charge("k", "x"), kept("200 OK\r\n", "true", "ok")},
	}, also: []string{"TestARefusedConnectionFreesTheKey"}},
	{id: "F29", what: "a wrong code is not pinned where a route stores 2xx only; another body is a conflict all the same", route: Route{Store: []string{"2xx"}}, says: []string{"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno", okay}, runs: 2, turns: []spoken{
		{charge("k", "code=1"), unkept("400 Bad Request\r\n", "no")},
		{charge("k", "code=2"), kept("200 OK\r\n", "false", "ok")},
		{charge("k", "code=2"), kept("200 OK\r\n", "true", "ok")},
		{charge("k", "code=1"), conflict},
	}},
	{id: "F30", what: "a short negative entry stops a storm of retries", route: Route{RetentionByStatus: map[string]Duration{"4xx": "10s"}}, says: []string{"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"}, runs: 1,
		turns: append([]spoken{{charge("k", "x"), kept("404 Not Found\r\n", "false", "no")}}, slices.Repeat([]spoken{{charge("k", "x"), kept("404 Not Found\r\n", "true", "no")}}, 4)...), also: []string{"TestRetentionByStatus"}},
	{id: "F31", what: "429 is never bound to the key", says: []string{"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", okay}, runs: 2, turns: []spoken{
		{charge("k", "x"), unkept("429 Too Many Requests\r\nRetry-After: 3\r\n", "")},
		{charge("k", "x"), kept("200 OK\r\n", "false", "ok")},
	}},
	{id: "F32", what: "taken and then silent is unknown, not free", route: Route{Timeout: "50ms"}, says: []string{"hangs", okay}, runs: 1, turns: []spoken{
		{charge("k", "x"), unknownFirst},
		{charge("k", "x"), unknownAgain},
	}, also: []string{"TestNoWholeAnswerIsUnknown"}},
	{id: "F33", what: "a crash after the effect: the second run carries the same key", route: Route{OnUnknown: "retry"}, says: []string{"closes", okay}, runs: 2, turns: []spoken{
		{charge("k", "x"), unknownFirst},
		{charge("k", "x"), kept("200 OK\r\n", "false", "ok")},
	}, heard: "POST /charge HTTP/1.1\r\nHost: pay.example\r\nContent-Length: 1\r\nForwarded: for=127.0.0.1;host=pay.example;proto=http\r\nIdempotency-Key: k\r\nOnced-Attempt: 2\r\nOnced-Token: 2\r\n" +
		"X-Account: acme\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: pay.example\r\nX-Forwarded-Proto: http\r\n\r\nx", also: []string{"TestHoldAfterALapse", "TestRetryTakesOverWithTheNextAttempt"}},
	{id: "F34", what: "the client hangs up: the answer is stored (this is its repeat)", says: []string{okay}, runs: 1, left: charge("k", "x"), turns: []spoken{{charge("k", "x"), kept("200 OK\r\n", "true", "ok")}}, also: []string{"TestClientHangsUp", "TestAStreamThatIsResetChangesNothing"}},
	{id: "F35", what: "the same at any point", says: []string{okay}, runs: 1, left: charge("k", "x"), turns: []spoken{{charge("k", "x"), kept("200 OK\r\n", "true", "ok")}}, also: []string{"TestClientHangsUpBeforeTheReservation", "TestAClientThatBreaksOffReservesNothing", "TestEventStreamGoesOnWithoutItsClient"}},
	{id: "F37", what: "a big answer leaves a tombstone, and never a second run", route: Route{MaxResponse: "1B"}, says: []string{okay}, runs: 1, turns: []spoken{
		{charge("k", "x"), unkept("200 OK\r\n", "ok")},
		{charge("k", "x"), notKept},
		{charge("k", "y"), conflict},
	}, also: []string{"TestALargeAnswerIsRecordedBeforeItsLastByte"}},

	// D. Fidelity of a replay.
	{id: "F42", what: "no cookie, challenge, or header of one connection is replayed", says: []string{
		"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nWWW-Authenticate: Basic\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok"}, runs: 1, turns: []spoken{
		{charge("k", "x"), kept("200 OK\r\nSet-Cookie: a=1\r\nWWW-Authenticate: Basic\r\n", "false", "ok")},
		{charge("k", "x"), kept("200 OK\r\n", "true", "ok")},
	}, also: []string{"TestWhatIsNeverReplayed", "TestWhatConnectionNamesBesideClose"}},
	{id: "F43", what: "Location, ETag and Link are", says: []string{created}, runs: 1, turns: []spoken{
		{charge("k", "x"), kept("201 Created\r\nContent-Type: application/json\r\nLocation: /charges/7\r\nETag: \"v1\"\r\nLink: <a>; rel=x\r\nLink: <b>; rel=y\r\n", "false", `{"charge":7}`)},
		{charge("k", "x"), kept("201 Created\r\nContent-Type: application/json\r\nLocation: /charges/7\r\nETag: \"v1\"\r\nLink: <a>; rel=x\r\nLink: <b>; rel=y\r\n", "true", `{"charge":7}`)},
	}, also: []string{"TestLinesKeepTheirOrder"}},
	{id: "F44", what: "204 is 204, with no length, no chunks and no body", says: []string{"HTTP/1.1 204 No Content\r\n\r\n"}, runs: 1, turns: []spoken{
		{charge("k", "x"), strings.Replace(kept("204 No Content\r\n", "false", ""), "Content-Length: 0\r\n", "", 1)},
		{charge("k", "x"), strings.Replace(kept("204 No Content\r\n", "true", ""), "Content-Length: 0\r\n", "", 1)},
	}, also: []string{"TestFramingOnTheWire", "TestRedirectsAreNotFollowed"}},
	{id: "F45", what: "an empty body is a body", says: []string{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, runs: 1, turns: []spoken{
		{charge("k", "x"), kept("200 OK\r\n", "false", "")},
		{charge("k", "x"), kept("200 OK\r\n", "true", "")},
	}, also: []string{"TestFramingOfAnswersWithoutABody"}},
	{id: "F48", what: "an event stream passes, and its repeat is told so", says: []string{"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n"}, runs: 1, turns: []spoken{
		{charge("k", "x"), "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nIdempotency-Replayed: false\r\nDate: now\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n"},
		{charge("k", "x"), notKept},
	}, also: []string{"TestEventStream", "TestEventsAreFlushedUnprotected"}},
	{id: "F50", what: "a replayed failure is marked as one", says: []string{"HTTP/1.1 402 Payment Required\r\nContent-Length: 2\r\n\r\nno"}, runs: 1, turns: []spoken{
		{charge("k", "x"), kept("402 Payment Required\r\n", "false", "no")},
		{charge("k", "x"), kept("402 Payment Required\r\n", "true", "no")},
	}},
	{id: "F51", what: "a preflight is the upstream's, and the markers are exposed to the origin that it allows", says: []string{
		"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Headers: idempotency-key\r\nAccess-Control-Allow-Origin: https://shop.example\r\nContent-Length: 2\r\n\r\nok"}, runs: 2, turns: []spoken{
		{"OPTIONS /charge HTTP/1.1\r\nHost: h\r\nOrigin: https://shop.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: idempotency-key\r\n\r\n",
			"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Headers: idempotency-key\r\nAccess-Control-Allow-Origin: https://shop.example\r\nContent-Length: 2\r\nDate: now\r\nConnection: close\r\n\r\nok"},
		{charge("k", "x", "Origin: https://shop.example"), strings.Replace(kept("200 OK\r\nAccess-Control-Allow-Headers: idempotency-key\r\nAccess-Control-Allow-Origin: https://shop.example\r\n", "false", "ok"),
			"Content-Length", "Access-Control-Expose-Headers: Idempotency-Replayed, Idempotency-Expires, Retry-After\r\nContent-Length", 1)},
	}, also: []string{"TestMethodsThatAreNotProtected", "TestMarkersAreExposedWhereTheUpstreamAllowsTheOrigin", "TestPagesCanReadRefusalsAndReplays"}},

	// E. Key and fingerprint.
	{id: "F53", what: "two keys are no third one", says: []string{okay}, runs: 0, turns: []spoken{
		{keyed("Idempotency-Key: a", "Idempotency-Key: a"), badKey},
		{keyed("Idempotency-Key: a", "Idempotency-Key: b"), badKey},
		{keyed("Idempotency-Key: a, b"), badKey},
	}, also: []string{"TestKeys"}},
	{id: "F54", what: "quoted and bare are one key; what is neither is refused", says: []string{okay}, runs: 2, turns: []spoken{
		{keyed(`Idempotency-Key: "abc"`), kept("200 OK\r\n", "false", "ok")},
		{keyed("Idempotency-Key: abc"), kept("200 OK\r\n", "true", "ok")},
		{keyed(`Idempotency-Key: "abc`), badKey},
		{keyed(`Idempotency-Key: "a\bc"`), badKey},
		{keyed(`Idempotency-Key: "abc";v=1`), badKey},
		{keyed(`Idempotency-Key: "a\"b"`), kept("200 OK\r\n", "false", "ok")},
		{keyed(`Idempotency-Key: a"b`), kept("200 OK\r\n", "true", "ok")},
	}, also: []string{"TestKeys"}},
	{id: "F57", what: "the name in any case, the value as it is", says: []string{okay}, runs: 2, turns: []spoken{
		{keyed("idempotency-KEY: abc"), kept("200 OK\r\n", "false", "ok")},
		{keyed("Idempotency-Key: abc"), kept("200 OK\r\n", "true", "ok")},
		{keyed("Idempotency-Key: Abc"), kept("200 OK\r\n", "false", "ok")},
	}},
	{id: "F58", what: "one byte of the body is another request", says: []string{okay}, runs: 1, turns: []spoken{
		{charge("k", "amount=100"), kept("200 OK\r\n", "false", "ok")},
		{charge("k", "amount=101"), conflict},
		{charge("k", "amount=100 "), conflict},
		{charge("k", ""), conflict},
		{charge("k", "amount=100"), kept("200 OK\r\n", "true", "ok")},
	}},
	{id: "F60", what: "the query counts, its order only within one name", says: []string{okay}, runs: 3, turns: []spoken{
		{post("/charge?dry=1", "dry", "x"), kept("200 OK\r\n", "false", "ok")},
		{post("/charge", "dry", "x"), conflict},
		{post("/charge?a=1&b=2", "order", "x"), kept("200 OK\r\n", "false", "ok")},
		{post("/charge?b=2&a=1", "order", "x"), kept("200 OK\r\n", "true", "ok")},
		{post("/charge?a=1&a=2", "within", "x"), kept("200 OK\r\n", "false", "ok")},
		{post("/charge?a=2&a=1", "within", "x"), conflict},
	}, also: []string{"TestFingerprintOptions"}},
	{id: "F61", what: "the order of members does not count; 1, 1.0 and \"1\" are three", says: []string{okay}, runs: 1, turns: []spoken{
		{charge("k", `{"a":1,"b":2}`, jsonType), kept("200 OK\r\n", "false", "ok")},
		{charge("k", `{"b":2,"a":1}`, jsonType), kept("200 OK\r\n", "true", "ok")},
		{charge("k", `{"a":1.0,"b":2}`, jsonType), conflict},
		{charge("k", `{"a":"1","b":2}`, jsonType), conflict},
		{charge("k", `{"a":1,"b":2}`), conflict}, // raw, without the type: not the same on the safe side
	}},
	{id: "F63", what: "a route may leave the body out", route: Route{Fingerprint: Fingerprint{Body: "none"}}, says: []string{okay}, runs: 1, turns: []spoken{
		{charge("k", "one"), kept("200 OK\r\n", "false", "ok")},
		{charge("k", "two"), kept("200 OK\r\n", "true", "ok")},
	}},
	{id: "F64", what: "no key is refused where it is required", says: []string{okay}, runs: 0, turns: []spoken{{charge("", "x"), noKey}, {charge("", "x"), noKey}}},
	{id: "F64", what: "and is no shared one where it is optional", route: Route{Key: "optional"}, says: []string{okay}, runs: 3, turns: []spoken{
		{charge("", "x"), passed("", "ok")}, {charge("", "x"), passed("", "ok")},
		{charge("k", "x"), kept("200 OK\r\n", "false", "ok")}, {charge("k", "x"), kept("200 OK\r\n", "true", "ok")},
	}},
	{id: "F66", what: "the gateway makes no keys of its own", route: Route{Key: "optional"}, says: []string{okay}, runs: 2, turns: []spoken{
		{charge("", "the same"), passed("", "ok")}, {charge("", "the same"), passed("", "ok")},
	}},
	{id: "F67", what: "GET passes with a key, and so does DELETE unless a route names it", says: []string{okay}, runs: 4, turns: []spoken{
		{strings.Replace(keyed("Idempotency-Key: k"), "POST", "GET", 1), passed("", "ok")}, {strings.Replace(keyed("Idempotency-Key: k"), "POST", "GET", 1), passed("", "ok")},
		{strings.Replace(keyed("Idempotency-Key: k"), "POST", "DELETE", 1), passed("", "ok")}, {strings.Replace(keyed("Idempotency-Key: k"), "POST", "DELETE", 1), passed("", "ok")},
	}, also: []string{"TestMethodsThatAreNotProtected"}},
	{id: "F68", what: "an expired key says so while its tombstone stands", route: Route{Retention: "1s", Tombstone: "1h"}, ahead: 2 * time.Second, says: []string{okay}, runs: 1, turns: []spoken{
		{charge("k", "x"), kept("200 OK\r\n", "false", "ok")},
		{charge("k", "x"), refusing("409 Conflict", onced.CodeKeyExpired, "")},
	}, also: []string{"TestTombstone"}},
}

// TestFieldCases holds the conversations of the table.
func TestFieldCases(t *testing.T) {
	for _, fc := range fieldCases {
		t.Run(fc.id+" "+fc.what, func(t *testing.T) {
			arrived, answer := make(chan struct{}, 10), make(chan struct{})
			up := newUpstream(t, func(n int, _ *http.Request, c net.Conn) bool {
				if fc.left != "" {
					arrived <- struct{}{}
					<-answer
				}
				switch says := fc.says[min(n, len(fc.says))-1]; says {
				case "hangs":
					io.Copy(io.Discard, c)
				case "closes":
				default:
					io.WriteString(c, strings.Replace(says, "\r\n", "\r\nConnection: close\r\n", 1))
				}
				return false
			})
			if fc.route.Match == "" {
				fc.route.Match = "POST /charge"
			}
			events := make(chan Event, 10)
			deps := Deps{Observe: func(e Event) { events <- e }}
			if fc.stuck {
				deps.RequestTimeout = 50 * time.Millisecond
			}
			b := newBench(t, up, deps, fc.route)
			if fc.stuck {
				b.keeper.hook(&b.keeper.complete, unavailable)
				defer b.keeper.hook(&b.keeper.complete, nil)
			}
			if fc.left != "" {
				b.watch = make(chan context.Context, 10)
				c := b.dial(fc.left)
				<-arrived
				c.Close()
				<-(<-b.watch).Done() // the server has seen it
				close(answer)
				if e := <-events; e.Outcome != Executed {
					t.Fatalf("the event is %+v", e)
				}
			}
			for i, turn := range fc.turns {
				if i > 0 && fc.ahead > 0 {
					b.keeper.ahead.Store(fc.ahead.Milliseconds())
				}
				sameWire(t, plain(b.wire(turn.send)), turn.back)
			}
			b.expectRuns(fc.runs)
			if fc.heard != "" {
				sameWire(t, up.request(fc.runs), fc.heard)
			}
		})
	}
}

// TestEveryFieldCaseHasARow holds the table to the lists that it speaks of, and its names to the tests that there are.
func TestEveryFieldCaseHasARow(t *testing.T) {
	there := map[string]bool{}
	tests := declaredTests(t)
	for _, fc := range fieldCases {
		there[fc.id] = true
		for _, name := range fc.also {
			if !tests[name] {
				t.Errorf("%s: there is no %s", fc.id, name)
			}
		}
		if len(fc.turns) == 0 {
			t.Errorf("%s: %s: nothing goes over the wire", fc.id, fc.what)
		}
	}
	for _, id := range strings.Fields("5.1 5.2 5.3 5.4 5.5 5.6 5.7 5.8 5.9 5.10 " +
		"F28 F29 F30 F31 F32 F33 F34 F35 F37 F42 F43 F44 F45 F48 F50 F51 F53 F54 F57 F58 F60 F61 F63 F64 F66 F67 F68") {
		if !there[id] {
			t.Errorf("%s has no row", id)
		}
	}
}

// declaredTests are the names of this package's tests.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
	}
	return names
}
