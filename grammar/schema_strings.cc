// Compiles the constraints of a schema on strings: length, patterns, formats.
#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/utf8.h"
#include "grammar/byte_automaton.h"
#include "grammar/configurations.h"
#include "grammar/grammar_rules.h"
#include "grammar/schema_compiler.h"

namespace ibid {
namespace {

constexpr size_t kMostStringStates = 20'000;

struct Wanted {
  std::string pattern;
  PlaceId place;
  std::string_view keyword;
  bool excluded = false;  // true: strings must not match the pattern
};

Status wrong(const SchemaDocument& document, const Wanted& wanted, const Status& status) {
  return schema_error(status.code(), pointer_of_text(document, wanted.place, wanted.keyword), "", status.message());
}

Status at_place(const SchemaDocument& document, const SchemaPart& part, const Status& status) {
  return schema_error(status.code(), document.pointer_of(part.schema), "", status.message());
}

// Returns the patterns and formats of `part`, all as regular expressions.
std::vector<Wanted> wanted_patterns(const SchemaPart& part) {
  std::vector<Wanted> out;
  for (const bool excluded : {false, true}) {
    for (const auto& [pattern, place] : excluded ? part.other_patterns : part.patterns) {
      out.push_back({std::string(pattern), place, "pattern", excluded});
    }
    for (const auto& [name, place] : excluded ? part.other_formats : part.formats) {
      out.push_back({std::string("^(?:") + format_pattern(name) + ")$", place, "format", excluded});
    }
  }
  std::ranges::sort(out, {}, [](const Wanted& wanted) { return std::tie(wanted.excluded, wanted.pattern); });
  // std::ranges::unique of libstdc++ does not compile with clang 14, which builds the fuzzers.
  const auto same = [](const Wanted& a, const Wanted& b) { return a.pattern == b.pattern && a.excluded == b.excluded; };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  return out;
}

Result<ExprId> add_pattern(const SchemaDocument& document, const Wanted& wanted, GrammarRules& rules) {
  TRY(document.spend(wanted.pattern.size(), kAnySchema));
  const CharWriter write = [&](const CodePointSet& set) { return JsonWriter::canonical_char(set, rules); };
  Result<ExprId> expr = compile_pattern(wanted.pattern, RegexMatch::kSearch, write, rules);
  if (expr.ok()) return expr;
  return wrong(document, wanted, expr.status());
}

ExprId add_lengths(const CountBounds& length, GrammarRules& rules) {
  return rules.repeat(JsonWriter::canonical_char(CodePointSet::all(), rules), length.min, length.max);
}

// Returns the JSON notation of a string without its quotes.
std::string unquoted(const Json& value) {
  const std::string text = json_to_string(value);
  return text.substr(1, text.size() - 2);
}

ExprId excluded_texts(const SchemaPart& part, GrammarRules& rules) {
  std::vector<ExprId> texts;
  for (const ListedValue& value : part.excluded) {
    if (value.json->is_string()) texts.push_back(rules.bytes(unquoted(*value.json)));
  }
  return rules.choice(texts);
}

// Returns an expression for the contents of the allowed strings, in canonical notation.
Result<ExprId> canonical_strings(SchemaDocument& document, const SchemaPart& part, GrammarRules& rules) {
  if (part.length.min > part.length.max) return rules.nothing();
  const std::vector<Wanted> patterns = wanted_patterns(part);
  const bool excludes = part.excludes(kStringType);
  if (patterns.empty() && !excludes) return add_lengths(part.length, rules);
  const bool starts_excluded = patterns.empty() || patterns[0].excluded;
  if (patterns.size() == 1 && !part.length.any() && !starts_excluded && !excludes) {
    return add_pattern(document, patterns[0], rules);
  }
  std::vector<RegularLanguage> languages;
  const auto add = [&](const auto& make) -> Status {
    GrammarRules own;
    const RuleId root = own.add_rule("string");
    const Result<ExprId> expr = make(own);
    TRY(expr.status());
    own.define(root, *expr);
    Result<RegularLanguage> language = RegularLanguage::compile(own, document.budget());
    if (!language.ok()) return at_place(document, part, language.status());
    languages.push_back(std::move(language).value());
    return {};
  };
  std::vector<bool> excluded;
  // The first factor of a product (multiply_regular()) must not be excluded.
  if (part.length.any() || starts_excluded) {
    TRY(add([&](GrammarRules& own) -> Result<ExprId> { return add_lengths(part.length, own); }));
    excluded.push_back(false);
  }
  for (const Wanted& wanted : patterns) {
    TRY(add([&](GrammarRules& own) { return add_pattern(document, wanted, own); }));
    excluded.push_back(wanted.excluded);
  }
  if (excludes) {
    TRY(add([&](GrammarRules& own) -> Result<ExprId> { return excluded_texts(part, own); }));
    excluded.push_back(true);
  }
  std::vector<RegularPart> parts;
  for (size_t i = 0; i < languages.size(); ++i) parts.push_back({&languages[i], excluded[i]});
  Result<RegularProduct> product = multiply_regular(parts, kMostStringStates, rules, document.budget());
  if (!product.ok()) return at_place(document, part, product.status());
  return product->empty ? rules.nothing() : rules.graph(std::move(product->graph));
}

}  // namespace

Result<ExprId> string_values(SchemaDocument& document, const SchemaPart& part, JsonWriter& writer) {
  if (!part.asks_of_strings()) return writer.plain_string();
  std::string name = "string " + std::to_string(part.length.min) + ' ' + std::to_string(part.length.max);
  for (const auto& list : {&part.patterns, &part.formats, &part.other_patterns, &part.other_formats}) {
    name += '\n';
    for (const auto& [text, place] : *list) {
      name += std::to_string(text.size()) + ':';
      name += text;
    }
  }
  name += '\n';
  for (const ListedValue& value : part.excluded) {
    if (value.json->is_string()) name += std::to_string(value.number) + ' ';
  }
  TRY(document.spend(name.size() / 8, part.schema));
  Status status;
  const ExprId out = writer.call_once(name, [&]() -> ExprId {
    GrammarRules& rules = writer.rules();
    const bool is_counted_only = part.patterns.empty() && part.formats.empty() && part.other_patterns.empty() &&
                                 part.other_formats.empty() && !part.excludes(kStringType);
    if (is_counted_only) {
      if (part.length.min > part.length.max) return rules.nothing();
      return writer.quoted(rules.repeat(writer.plain_char(), part.length.min, part.length.max));
    }
    Result<ExprId> characters = canonical_strings(document, part, rules);
    if (characters.ok()) return writer.quoted(*characters);
    status = characters.status();
    return rules.nothing();
  });
  TRY(status);
  return out;
}

Result<GrammarRules> string_rules(SchemaDocument& document, const SchemaPart& part) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("string");
  ExprId all = rules.nothing();
  if (part.values) {
    std::vector<ExprId> texts;
    for (const ListedValue& value : *part.values) {
      if (!value.json->is_string()) continue;
      TRY_ASSIGN(const bool allowed, string_allowed(document, part, value.json->get<std::string>()));
      if (allowed && !part.excludes(value)) texts.push_back(rules.bytes(unquoted(*value.json)));
    }
    all = rules.choice(texts);
  } else {
    TRY_ASSIGN(all, canonical_strings(document, part, rules));
  }
  rules.define(root, all);
  return rules;
}

Result<bool> string_allowed(SchemaDocument& document, const SchemaPart& part, const std::string& value) {
  TRY(document.spend(1 + value.size() / 8, part.schema));
  size_t length = 0;
  for (size_t i = 0; i < value.size(); ++length) i += utf8_decode(value, i).length;
  if (length < part.length.min || length > part.length.max) return false;
  const std::vector<Wanted> patterns = wanted_patterns(part);
  for (const Wanted& wanted : patterns) {
    const Result<bool> found = document.patterns().finds(wanted.pattern, value);
    if (!found.ok()) return wrong(document, wanted, found.status());
    if (*found == wanted.excluded) return false;
  }
  return true;
}

// --- The regular string formats, as regular expressions. Each matches only texts that its specification allows; if it
// excludes some of these, a comment names them.

namespace {

// RFC 3339, with the days of each month. The year 0000 is excluded, because programs reject it.
#define IBID_YEAR "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
#define IBID_LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define IBID_DAY                                                                            \
  "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|" \
  "02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define IBID_DATE "(?:" IBID_YEAR "-" IBID_DAY "|" IBID_LEAP_YEAR "-02-29)"
// Leap seconds are excluded: whether one exists depends on the date.
#define IBID_HOUR "(?:[01][0-9]|2[0-3])"
#define IBID_TIME IBID_HOUR ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,18})?(?:[Zz]|[+-]" IBID_HOUR ":[0-5][0-9])"
// RFC 3339, appendix A.
#define IBID_DURATION_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define IBID_DURATION_DATE "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
#define IBID_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IBID_IPV4 "(?:" IBID_OCTET "\\.){3}" IBID_OCTET
#define IBID_H16 "[0-9A-Fa-f]{1,4}"
#define IBID_LS32 "(?:" IBID_H16 ":" IBID_H16 "|" IBID_IPV4 ")"
#define IBID_IPV6                                                                                                 \
  "(?:"                                                                                                           \
  "(?:" IBID_H16 ":){6}" IBID_LS32 "|::(?:" IBID_H16 ":){5}" IBID_LS32 "|(?:" IBID_H16 ")?::(?:" IBID_H16         \
  ":){4}" IBID_LS32 "|(?:(?:" IBID_H16 ":){0,1}" IBID_H16 ")?::(?:" IBID_H16 ":){3}" IBID_LS32 "|(?:(?:" IBID_H16 \
  ":){0,2}" IBID_H16 ")?::(?:" IBID_H16 ":){2}" IBID_LS32 "|(?:(?:" IBID_H16 ":){0,3}" IBID_H16 ")?::" IBID_H16   \
  ":" IBID_LS32 "|(?:(?:" IBID_H16 ":){0,4}" IBID_H16 ")?::" IBID_LS32 "|(?:(?:" IBID_H16 ":){0,5}" IBID_H16      \
  ")?::" IBID_H16 "|(?:(?:" IBID_H16 ":){0,6}" IBID_H16                                                           \
  ")?::"                                                                                                          \
  ")"
// RFC 1123: labels of up to 63 characters, and 253 in total. Counting both at once would need a state for each pair of
// counts. Instead, a name has up to four labels, the last of which has up to 61 characters, or up to eight labels of up
// to 30 characters. Names in Punycode, and all others with two hyphens after the second character, are excluded.
#define IBID_ALNUM "[0-9A-Za-z]"
#define IBID_ALNUM_HYPHEN "[0-9A-Za-z-]"
#define IBID_LABEL(more)                                                                     \
  IBID_ALNUM "(?:" IBID_ALNUM "|" IBID_ALNUM_HYPHEN "{1,2}" IBID_ALNUM "|" IBID_ALNUM_HYPHEN \
             "(?:" IBID_ALNUM IBID_ALNUM_HYPHEN "|-" IBID_ALNUM ")" IBID_ALNUM_HYPHEN "{0," more "}" IBID_ALNUM ")?"
#define IBID_HOSTNAME \
  "(?:(?:" IBID_LABEL("58") "\\.){0,3}" IBID_LABEL("56") "|(?:" IBID_LABEL("25") "\\.){4,7}" IBID_LABEL("25") ")"
// RFC 5321.
#define IBID_ATEXT "[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]"
#define IBID_QUOTED "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\""
#define IBID_MAILBOX "(?:" IBID_ATEXT "+(?:\\." IBID_ATEXT "+)*|" IBID_QUOTED ")"
#define IBID_MAIL_HOST "(?:" IBID_HOSTNAME "|\\[(?:" IBID_IPV4 "|IPv6:" IBID_IPV6 ")\\])"
// RFC 3986: the characters and escapes of each part.
#define IBID_URI_CHAR "(?:[0-9A-Za-z._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define IBID_URI_USER "(?:(?:[0-9A-Za-z._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?"
#define IBID_URI_HOST "(?:(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*|\\[" IBID_IPV6 "\\])(?::[0-9]*)?"
#define IBID_URI_TAIL "(?:\\?(?:" IBID_URI_CHAR "|[/?])*)?(?:#(?:" IBID_URI_CHAR "|[/?])*)?"
#define IBID_URI_AUTHORITY "//" IBID_URI_USER IBID_URI_HOST "(?:/" IBID_URI_CHAR "*)*"
#define IBID_URI_PATH "(?:/(?:" IBID_URI_CHAR "+(?:/" IBID_URI_CHAR "*)*)?)"
#define IBID_URI                                                                                             \
  "[A-Za-z][0-9A-Za-z+.-]*:(?:" IBID_URI_AUTHORITY "|" IBID_URI_PATH "|" IBID_URI_CHAR "+(?:/" IBID_URI_CHAR \
  "*)*|)" IBID_URI_TAIL
#define IBID_URI_FIRST "(?:[0-9A-Za-z._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+"
#define IBID_URI_RELATIVE \
  "(?:" IBID_URI_AUTHORITY "|" IBID_URI_PATH "|" IBID_URI_FIRST "(?:/" IBID_URI_CHAR "*)*|)" IBID_URI_TAIL
// RFC 6570.
#define IBID_TEMPLATE_CHAR R"((?:[!#$&(-;=?-\[\]_a-z~\u00a1-\ud7ff\uf900-\ufdcf\ufdf0-\uffef]|%[0-9A-Fa-f]{2}))"
#define IBID_TEMPLATE_NAME R"((?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2})(?:\.?(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2}))*)"
#define IBID_TEMPLATE_VARIABLE IBID_TEMPLATE_NAME R"((?:\*|:[1-9][0-9]{0,3})?)"
#define IBID_TEMPLATE \
  "(?:" IBID_TEMPLATE_CHAR R"(|\{[+#./;?&]?)" IBID_TEMPLATE_VARIABLE "(?:," IBID_TEMPLATE_VARIABLE R"()*\})*)"
// Regular expressions of ECMA-262 that other programs interpret in the same way: groups nested up to two deep, usual
// ranges in classes, no lookaround and no references.
#define IBID_REGEX_CLASS R"(\[\^?(?:a-z|A-Z|0-9|a-f|A-F|[^\\\]\[^-]|\\[dDwWsSnrtfv\\\]\[^./-])+-?\])"
#define IBID_REGEX_CHAR R"([^\\^$.*+?()\[\]{}|]|\.|\\[dDwWsSnrtfv^$\\.*+?()\[\]{}|/]|)" IBID_REGEX_CLASS
#define IBID_REGEX_TIMES R"((?:[*+?]\??|\{[0-9]{1,2},?\}\??)?)"
#define IBID_REGEX_TERMS(atom) "(?:(?:" atom ")" IBID_REGEX_TIMES R"(|[$^|]|\\[bB])*)"
#define IBID_REGEX_WITH_GROUPS(inner) IBID_REGEX_TERMS(IBID_REGEX_CHAR R"(|\((?:\?:)?)" inner R"(\))")
#define IBID_REGEX IBID_REGEX_WITH_GROUPS(IBID_REGEX_WITH_GROUPS(IBID_REGEX_TERMS(IBID_REGEX_CHAR)))
#define IBID_POINTER "(?:/(?:[^~/]|~[01])*)*"

constexpr std::array<std::pair<std::string_view, const char*>, 15> kFormats = {{
    {"date", IBID_DATE},
    {"time", IBID_TIME},
    {"date-time", IBID_DATE "[Tt]" IBID_TIME},
    {"duration", "P(?:" IBID_DURATION_DATE "(?:" IBID_DURATION_TIME ")?|" IBID_DURATION_TIME "|[0-9]+W)"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"ipv4", IBID_IPV4},
    {"ipv6", IBID_IPV6},
    {"email", IBID_MAILBOX "@" IBID_MAIL_HOST},
    {"hostname", IBID_HOSTNAME},
    {"uri", IBID_URI},
    {"uri-reference", "(?:" IBID_URI "|" IBID_URI_RELATIVE ")"},
    {"uri-template", IBID_TEMPLATE},
    {"regex", IBID_REGEX},
    {"json-pointer", IBID_POINTER},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" IBID_POINTER ")"},
}};

// Makes the pattern of IRIs (RFC 3987) from the pattern of URIs: adds ucschar to the characters that need no escape.
std::string for_iris(std::string pattern) {
  const std::string_view ascii = "0-9A-Za-z._~", more = R"(\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef)";
  for (size_t at = 0; (at = pattern.find(ascii, at)) != pattern.npos; at += ascii.size() + more.size()) {
    pattern.insert(at + ascii.size(), more);
  }
  return pattern;
}

}  // namespace

const char* format_pattern(std::string_view name) {
  static const std::string kIri = for_iris(IBID_URI),
                           kIriReference = for_iris("(?:" IBID_URI "|" IBID_URI_RELATIVE ")");
  if (name == "iri") return kIri.c_str();
  if (name == "iri-reference") return kIriReference.c_str();
  for (const auto& [known, pattern] : kFormats) {
    if (known == name) return pattern;
  }
  return nullptr;
}

}  // namespace ibid
