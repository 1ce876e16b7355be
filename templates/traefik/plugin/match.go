package lbgen

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// request is what rules look at.
type request struct {
	method  string
	path    string // as sent
	matched string // escapes in upper case
	query   string // with its question mark, or empty
	header  http.Header
	host    string // what rules that ask for the header Host look at
}

type table struct {
	exact  map[string][]candidate
	prefix map[string][]candidate
	root   []candidate // of the prefix /
	depth  int         // most slashes in any other prefix
}

type candidate struct {
	rule *rule
	test bool
}

type rule struct {
	conf    *Rule
	route   *Route
	path    *regexp.Regexp
	methods map[string]bool
	headers []*value
	query   []*value
	cookies []*value
	bare    bool // nothing but the path
}

type value struct {
	name  string
	kind  string
	text  string
	regex *regexp.Regexp
}

func compile(text string) (*regexp.Regexp, error) {
	return regexp.Compile(`\A(?:` + text + `)\z`)
}

func newValues(conf []*Value, canonical bool) ([]*value, error) {
	found := []*value{}
	for _, each := range conf {
		one := &value{name: each.Name, kind: each.Kind, text: each.Value}
		if canonical {
			one.name = http.CanonicalHeaderKey(each.Name)
		}
		if each.Kind == "regex" {
			regex, err := compile(each.Value)
			if err != nil {
				return nil, err
			}
			one.regex = regex
		}
		found = append(found, one)
	}
	return found, nil
}

func newRule(conf *Rule, route *Route) (*rule, error) {
	found := &rule{conf: conf, route: route}
	var err error
	if conf.Regex {
		if found.path, err = compile(conf.Path); err != nil {
			return nil, err
		}
	}
	if len(conf.Methods) > 0 {
		found.methods = map[string]bool{}
		for _, method := range conf.Methods {
			found.methods[method] = true
		}
	}
	if found.headers, err = newValues(conf.Headers, true); err != nil {
		return nil, err
	}
	if found.query, err = newValues(conf.Query, false); err != nil {
		return nil, err
	}
	if found.cookies, err = newValues(conf.Cookies, false); err != nil {
		return nil, err
	}
	found.bare = len(conf.Methods)+len(conf.Headers)+len(conf.Query)+len(conf.Cookies) == 0
	return found, nil
}

func newTable(conf *Table, rules []*rule) (*table, error) {
	found := &table{exact: map[string][]candidate{}, prefix: map[string][]candidate{}}
	for _, group := range conf.Exact {
		list, err := candidates(group.Rules, rules)
		if err != nil {
			return nil, err
		}
		found.exact[group.Path] = list
	}
	for _, group := range conf.Prefix {
		list, err := candidates(group.Rules, rules)
		if err != nil {
			return nil, err
		}
		if group.Path == "/" {
			found.root = list
			continue
		}
		found.prefix[group.Path] = list
		if depth := strings.Count(group.Path, "/"); depth > found.depth {
			found.depth = depth
		}
	}
	return found, nil
}

func candidates(text string, rules []*rule) ([]candidate, error) {
	found := []candidate{}
	for _, word := range strings.Fields(text) {
		index, err := strconv.Atoi(strings.TrimSuffix(word, "~"))
		if err != nil {
			return nil, err
		}
		found = append(found, candidate{rule: rules[index], test: strings.HasSuffix(word, "~")})
	}
	return found, nil
}

// find is the first rule that takes the request, or nil.
func (t *table) find(q *request) *rule {
	group, found := t.exact[q.matched]
	if !found {
		group = t.root
		if t.depth > 0 {
			group = t.longest(q.matched)
		}
	}
	for _, each := range group {
		if each.test && !each.rule.path.MatchString(q.path) {
			continue
		}
		if each.rule.bare || each.rule.holds(q) {
			return each.rule
		}
	}
	return nil
}

// longest is the group of the longest prefix that covers the path by whole segments.
func (t *table) longest(path string) []candidate {
	end := len(path)
	if strings.Count(path, "/") > t.depth {
		end = cutDepth(path, t.depth)
	}
	for end > 0 {
		if group, found := t.prefix[path[:end]]; found {
			return group
		}
		end = strings.LastIndexByte(path[:end], '/')
	}
	return t.root
}

// cutDepth is where the slash after the given number of segments stands, so that long paths cost no more than short.
func cutDepth(path string, depth int) int {
	at := 0
	for i := 0; i <= depth; i++ {
		next := strings.IndexByte(path[at:], '/')
		if next < 0 {
			return len(path)
		}
		at += next + 1
	}
	return at - 1
}

func (r *rule) holds(q *request) bool {
	if r.methods != nil && !r.methods[q.method] {
		return false
	}
	for _, wanted := range r.headers {
		if !wanted.inList(q.lines(wanted.name)) {
			return false
		}
	}
	for _, wanted := range r.query {
		text, found := parameter(q.query, wanted.name)
		if !found || !wanted.holds(text) {
			return false
		}
	}
	for _, wanted := range r.cookies {
		text, found := cookie(q.header["Cookie"], wanted.name)
		if !found || !wanted.holds(text) {
			return false
		}
	}
	return true
}

func (q *request) lines(name string) []string {
	if name == "Host" {
		return []string{q.host}
	}
	return q.header[name]
}

func (v *value) holds(text string) bool {
	if v.kind == "present" {
		return text != ""
	}
	if v.kind == "regex" {
		return v.regex.MatchString(text)
	}
	return text == v.text
}

// inList judges all lines of a header: the combined value or any element of the list it is.
func (v *value) inList(lines []string) bool {
	if len(lines) == 0 {
		return false
	}
	if v.kind == "present" {
		return strings.Join(lines, "") != ""
	}
	combined := strings.Join(lines, ", ")
	if v.holds(combined) {
		return true
	}
	for _, element := range strings.Split(combined, ",") {
		if v.holds(strings.Trim(element, " \t")) {
			return true
		}
	}
	return false
}

// parameter is the decoded value of the first pair of that name in a query.
func parameter(query, name string) (string, bool) {
	if query == "" {
		return "", false
	}
	for _, pair := range strings.Split(query[1:], "&") {
		if pair == "" {
			continue
		}
		found, text := pair, ""
		if at := strings.IndexByte(pair, '='); at >= 0 {
			found, text = pair[:at], pair[at+1:]
		}
		if found == name {
			return unescape(text), true
		}
	}
	return "", false
}

// unescape decodes escapes and leaves broken ones as they are.
func unescape(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	if whole, err := url.PathUnescape(text); err == nil {
		return whole
	}
	parts := strings.Split(text, "%")
	found := parts[0]
	for _, part := range parts[1:] {
		if len(part) >= 2 {
			if char, err := url.PathUnescape("%" + part[:2]); err == nil {
				found += char + part[2:]
				continue
			}
		}
		found += "%" + part
	}
	return found
}

// cookie is the value of the first cookie of that name, without its quotes.
func cookie(lines []string, name string) (string, bool) {
	for _, line := range lines {
		for _, pair := range strings.Split(line, ";") {
			pair = strings.Trim(pair, " \t")
			at := strings.IndexByte(pair, '=')
			if at < 0 || pair[:at] != name {
				continue
			}
			text := pair[at+1:]
			if len(text) > 1 && strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) {
				text = text[1 : len(text)-1]
			}
			return text, true
		}
	}
	return "", false
}
