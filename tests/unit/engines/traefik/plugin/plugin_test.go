package lbgen

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// serve sends a request through a middleware; it returns the answer, and the request as the next handler got it.
func serve(t *testing.T, config *Config, r *http.Request) (*http.Response, *http.Request) {
	t.Helper()
	var reached *http.Request
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached = r
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusInternalServerError) // as Traefik answers
		}
	})
	handler, err := New(context.Background(), next, config, "name")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result(), reached
}

func request(remote string, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "http://shop.example/a?b", nil)
	r.RemoteAddr = remote
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func TestARequestHasAnIDWhichOnlyTrustedProxiesChoose(t *testing.T) {
	trusting := &Config{Requests: &Requests{TrustedProxies: []string{"10.0.0.0/8"}, RequestID: true}}
	plain := &Config{Requests: &Requests{RequestID: true}}
	for _, each := range []struct {
		config *Config
		remote string
		sent   string
		keeps  bool
	}{
		{plain, "192.0.2.1:1", "", false},
		{plain, "192.0.2.1:1", "mine", false},
		{trusting, "192.0.2.1:1", "mine", false},
		{trusting, "10.0.0.1:1", "mine", true},
		{trusting, "[::ffff:10.0.0.1]:1", "mine", true},
		{trusting, "10.0.0.1:1", "", false},
	} {
		r := request(each.remote)
		if each.sent != "" {
			r.Header.Set("X-Request-Id", each.sent)
		}
		_, reached := serve(t, each.config, r)
		found := reached.Header.Values("X-Request-Id")
		if len(found) != 1 || (found[0] == each.sent) != each.keeps || (!each.keeps && len(found[0]) != 32) {
			t.Errorf("%s with %q: %q", each.remote, each.sent, found)
		}
	}
}

func TestWithoutIDsOfItsOwnOnesOfStrangersAreDropped(t *testing.T) {
	config := &Config{Requests: &Requests{TrustedProxies: []string{"10.0.0.0/8"}}}
	for remote, wanted := range map[string]string{"192.0.2.1:1": "", "10.0.0.1:1": "x"} {
		if _, reached := serve(t, config, request(remote, "X-Request-Id", "x")); reached.Header.Get("X-Request-Id") != wanted {
			t.Errorf("%s: %q", remote, reached.Header)
		}
	}
}

func TestTheClientIsTheLastThatIsNoTrustedProxy(t *testing.T) {
	config := &Config{Requests: &Requests{TrustedProxies: []string{"10.0.0.0/8", "fd00::/8"}, ClientAddress: true}}
	for _, each := range []struct{ remote, forwarded, client, sent string }{
		{"192.0.2.1:1", "", "192.0.2.1:1", ""},
		{"10.0.0.1:1", "", "10.0.0.1", "10.0.0.1"},
		{"10.0.0.1:1", "192.0.2.7", "192.0.2.7", "192.0.2.7, 10.0.0.1"},
		{"10.0.0.1:1", "::ffff:192.0.2.7", "192.0.2.7", "::ffff:192.0.2.7, 10.0.0.1"},
		{"10.0.0.1:1", "6.6.6.6, 192.0.2.7,10.0.0.9", "192.0.2.7", "6.6.6.6, 192.0.2.7,10.0.0.9, 10.0.0.1"},
		{"10.0.0.1:1", "192.0.2.7, ::ffff:10.0.0.9", "192.0.2.7", "192.0.2.7, ::ffff:10.0.0.9, 10.0.0.1"},
		{"10.0.0.1:1", "10.0.0.3", "10.0.0.3", "10.0.0.3, 10.0.0.1"},
		{"10.0.0.1:1", "192.0.2.7, unknown", "10.0.0.1", "192.0.2.7, unknown, 10.0.0.1"},
		{"[fd00::1]:1", "2001:db8::1", "2001:db8::1", "2001:db8::1, fd00::1"},
	} {
		r := request(each.remote)
		if each.forwarded != "" {
			r.Header.Set("X-Forwarded-For", each.forwarded)
		}
		_, reached := serve(t, config, r)
		if reached.RemoteAddr != each.client || reached.Header.Get("X-Forwarded-For") != each.sent {
			t.Errorf("%+v: %s, %q", each, reached.RemoteAddr, reached.Header)
		}
	}
}

func TestProxiesStateTheClientInTheHeaderThatCounts(t *testing.T) {
	trusted := []string{"10.0.0.0/8"}
	for _, each := range []struct {
		header, remote, sent, client, forwardedFor string
	}{
		{"Cf-Connecting-Ip", "10.0.0.1:1", "192.0.2.7", "192.0.2.7", "192.0.2.7"},
		{"Cf-Connecting-Ip", "10.0.0.1:1", "2001:db8::7", "2001:db8::7", "2001:db8::7"},
		{"Cf-Connecting-Ip", "10.0.0.1:1", "nobody", "10.0.0.1", "10.0.0.1"},
		{"Cf-Connecting-Ip", "192.0.2.1:1", "6.6.6.6", "192.0.2.1:1", "7.7.7.7"},
		{"Forwarded", "10.0.0.1:1", `for=6.6.6.6, proto=https; For="[2001:db8::7]", for="10.0.0.2"`, "2001:db8::7", "2001:db8::7"},
		{"Forwarded", "10.0.0.1:1", "for=_hidden", "10.0.0.1", "10.0.0.1"},
	} {
		config := &Config{Requests: &Requests{
			TrustedProxies: trusted, ClientAddress: true, ClientHeader: each.header, RealIP: true,
		}}
		r := request(each.remote, each.header, each.sent, "X-Forwarded-For", "7.7.7.7")
		_, reached := serve(t, config, r)
		if reached.RemoteAddr != each.client || reached.Header.Get("X-Forwarded-For") != each.forwardedFor {
			t.Errorf("%+v: %s, %q", each, reached.RemoteAddr, reached.Header)
		}
		isTrusted := strings.HasPrefix(each.remote, "10.")
		if kept := reached.Header.Get(each.header) != ""; kept != isTrusted {
			t.Errorf("%+v: %q", each, reached.Header)
		}
		if isTrusted && reached.Header.Get("X-Real-Ip") != each.client {
			t.Errorf("%+v: %q", each, reached.Header)
		}
	}
}

func TestForwardedQuotesWhatIsNoToken(t *testing.T) {
	for _, each := range []struct{ remote, host, sent, wanted string }{
		{"192.0.2.1:1", "shop.example", "for=6.6.6.6", "for=192.0.2.1;host=shop.example;proto=https"},
		{"192.0.2.1:1", "shop.example:8080", "", `for=192.0.2.1;host="shop.example:8080";proto=https`},
		{"192.0.2.1:1", "a;for=6.6.6.6", "", `for=192.0.2.1;host="a;for=6.6.6.6";proto=https`},
		{"[2001:db8::1]:1", "a", "", `for="[2001:db8::1]";host=a;proto=https`},
		{"10.0.0.1:1", "a", "for=192.0.2.7", "for=192.0.2.7, for=10.0.0.1;host=a;proto=https"},
	} {
		config := &Config{Requests: &Requests{TrustedProxies: []string{"10.0.0.0/8"}, Forwarded: "https"}}
		r := request(each.remote)
		r.Host = each.host
		if each.sent != "" {
			r.Header.Set("Forwarded", each.sent)
		}
		_, reached := serve(t, config, r)
		if found := strings.Join(reached.Header.Values("Forwarded"), ", "); found != each.wanted {
			t.Errorf("%+v: %s", each, found)
		}
	}
}

func TestNetworksThatAreNoneAreRefused(t *testing.T) {
	config := &Config{Requests: &Requests{TrustedProxies: []string{"here"}}}
	if _, err := New(context.Background(), nil, config, ""); err == nil {
		t.Error("no error")
	}
	if _, err := New(context.Background(), nil, CreateConfig(), ""); err == nil {
		t.Error("no error without a job")
	}
}

func TestAnswersAreLiteral(t *testing.T) {
	config := &Config{Respond: &Respond{Status: 404, Body: "gone {{\n", Headers: map[string]string{"content-type": "text/plain"}}}
	answer, reached := serve(t, config, request("192.0.2.1:1"))
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != 404 || string(body) != "gone {{\n" || answer.Header.Get("Content-Type") != "text/plain" || reached != nil {
		t.Errorf("%+v %q", answer, body)
	}
	r := request("192.0.2.1:1")
	r.Method = "HEAD"
	answer, _ = serve(t, config, r)
	if body, _ = io.ReadAll(answer.Body); len(body) > 0 || answer.ContentLength != 8 {
		t.Errorf("%+v %q", answer, body)
	}
	answer, _ = serve(t, &Config{Respond: &Respond{Status: 204}}, request("192.0.2.1:1"))
	if answer.StatusCode != 204 || answer.Header.Get("Content-Length") != "" {
		t.Errorf("%+v", answer)
	}
}

func TestRedirectsSayWhereToInFull(t *testing.T) {
	for _, each := range []struct {
		config Redirect
		host   string
		target string
		wanted string
	}{
		{Redirect{Status: 301, Scheme: "https"}, "Shop.Example.:8080", "/a?b=%7c&c", "https://shop.example/a?b=%7c&c"},
		{Redirect{Status: 303, Scheme: "http", Port: ":81"}, "[::1]:80", "/a?", "http://[::1]:81/a?"},
		{Redirect{Status: 308, Scheme: "http", Host: "b.test", Path: "/new", Whole: true}, "a", "/a/b?x", "http://b.test/new?x"},
		{Redirect{Status: 302, Scheme: "http", Path: "/to", Strip: "/from"}, "a", "/from/x%20y", "http://a/to/x%20y"},
		{Redirect{Status: 302, Scheme: "http", Strip: "/from"}, "a", "/from", "http://a/"},
		{Redirect{Status: 302, Scheme: "http", Path: "/to"}, "a", "/x", "http://a/to/x"},
	} {
		r := httptest.NewRequest("GET", each.target, nil)
		r.Host = each.host
		answer, _ := serve(t, &Config{Redirect: &each.config}, r)
		if answer.StatusCode != each.config.Status || answer.Header.Get("Location") != each.wanted {
			t.Errorf("%+v: %d %q", each, answer.StatusCode, answer.Header.Get("Location"))
		}
	}
}

func TestLongBodiesAreRefusedOrCut(t *testing.T) {
	most := int64(4)
	for body, wanted := range map[string]int{"1234": 200, "12345": 413} {
		answer, reached := serve(t, &Config{MaxBody: &most}, httptest.NewRequest("POST", "/", strings.NewReader(body)))
		if answer.StatusCode != wanted || (reached == nil) != (wanted == 413) {
			t.Errorf("%s: %d", body, answer.StatusCode)
		}
	}
	for _, each := range []struct {
		body, kind string
		wanted     int
	}{
		{"1234", "text/plain", 200},
		{"12345", "text/plain", 413},
		{"12345", "application/grpc", 500},
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(each.body))
		r.ContentLength = -1
		r.Header.Set("Content-Type", each.kind)
		if answer, _ := serve(t, &Config{MaxBody: &most}, r); answer.StatusCode != each.wanted {
			t.Errorf("%s of %s: %d", each.body, each.kind, answer.StatusCode)
		}
	}
}

func TestRequestsEndInTimeButNoWebSockets(t *testing.T) {
	_, reached := serve(t, &Config{Timeout: 1}, request("192.0.2.1:1"))
	if _, ok := reached.Context().Deadline(); !ok {
		t.Error("no deadline")
	}
	_, reached = serve(t, &Config{Timeout: 1}, request("192.0.2.1:1", "Upgrade", "websocket"))
	if _, ok := reached.Context().Deadline(); ok {
		t.Error("a deadline for a tunnel")
	}
}

func TestTheKeyBecomesTheAddress(t *testing.T) {
	for _, each := range []struct {
		config HashBy
		header string
		value  string
		wanted string
	}{
		{HashBy{Header: "x-user"}, "X-User", "a:1", "a%3A1"},
		{HashBy{Cookie: "s"}, "Cookie", "t=1; s=v", "v"},
		{HashBy{Query: "b"}, "X", "", ""},
		{HashBy{Cookie: "s"}, "X", "", ""},
	} {
		r := request("192.0.2.1:1", each.header, each.value)
		_, reached := serve(t, &Config{HashBy: &each.config}, r)
		if each.wanted != "" && reached.RemoteAddr != each.wanted || reached.RemoteAddr == "" || strings.Contains(reached.RemoteAddr, ":") {
			t.Errorf("%+v: %q", each, reached.RemoteAddr)
		}
		if reached.Header.Get("X-Forwarded-For") != "192.0.2.1" {
			t.Errorf("%q", reached.Header)
		}
		_, reached = serve(t, &Config{HashBy: &each.config}, reached) // a retry
		if reached.Header.Get("X-Forwarded-For") != "192.0.2.1" {
			t.Errorf("%q", reached.Header)
		}
	}
}

func TestLongTargetsAreRefused(t *testing.T) {
	config := &Config{Requests: &Requests{MaxTarget: 10, RequestID: true}}
	r := request("192.0.2.1:1")
	r.RequestURI = "/0123456789"
	if answer, reached := serve(t, config, r); answer.StatusCode != http.StatusRequestURITooLong || reached != nil {
		t.Errorf("a long target got %d", answer.StatusCode)
	}
	r.RequestURI = "/012345678"
	if answer, reached := serve(t, config, r); answer.StatusCode != http.StatusOK || reached == nil {
		t.Errorf("a target that is just short enough got %d", answer.StatusCode)
	}
}

func TestTheGuardDropsUnderscoresAndRefusesTargetsThatAreNoPath(t *testing.T) {
	config := &Config{Guard: &Guard{DropUnderscores: true}}
	_, reached := serve(t, config, request("192.0.2.1:1", "X_Real_IP", "forged", "X-Role", "r"))
	if len(reached.Header) != 1 || reached.Header.Get("X-Role") != "r" {
		t.Errorf("the endpoint gets %v", reached.Header)
	}
	r := request("192.0.2.1:1")
	r.URL.Opaque = "80"
	if answer, reached := serve(t, config, r); answer.StatusCode != http.StatusBadRequest || reached != nil {
		t.Errorf("a target that is no path got %d", answer.StatusCode)
	}
}

func TestPagesHoldWhatTheRequestWas(t *testing.T) {
	pages := []ErrorPage{{First: 404, Last: 404, ContentType: "text/plain", BodyParts: []string{"no ", "uri", " of ", "header.x-a"}}}
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("X-A")
		w.WriteHeader(http.StatusNotFound)
	})
	w := httptest.NewRecorder()
	showPages(next, &ErrorPages{Pages: pages}).ServeHTTP(w, request("192.0.2.1:1", "X-A", "me"))
	if found := w.Body.String(); found != "no /a?b of me" || w.Header().Get("Content-Length") != "13" {
		t.Errorf("%q of %s bytes", found, w.Header().Get("Content-Length"))
	}
}

func TestARedirectToTheMarkerLeadsToTheLogin(t *testing.T) {
	for location, wanted := range map[string]string{signIn: "/in?rd=/a?b", "/else": "/else"} {
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, location, http.StatusFound)
		})
		handler, err := writeValues(next, &Values{Login: []string{"/in?rd=", "uri"}})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request("192.0.2.1:1"))
		if found := w.Header().Get("Location"); found != wanted || strings.Contains(w.Body.String(), signIn) {
			t.Errorf("%s leads to %s with %q", location, found, w.Body.String())
		}
	}
}
