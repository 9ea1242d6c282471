#include "templates/reply/find_reply_format.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "templates/reply/call_reader.h"
#include "templates/reply/json_scanner.h"
#include "templates/reply/reply_format.h"

namespace ibid {
namespace {

struct TextRange {
  size_t begin = 0, end = 0;
  std::string_view of(std::string_view text) const { return text.substr(begin, end - begin); }
};

std::optional<TextRange> find_text(std::string_view text, std::string_view what, size_t from) {
  const size_t at = text.find(what, from);
  if (at == text.npos) return std::nullopt;
  return TextRange{at, at + what.size()};
}

// Where the name, the id and the arguments of a call are in a render.
struct CallPlaces {
  std::optional<TextRange> name, id;
  TextRange arguments;
  ArgumentsForm form = ArgumentsForm::kJson;
  ParameterSyntax parameter = {};
  std::string quote = {};

  size_t begin() const {
    size_t first = arguments.begin;
    if (name) first = std::min(first, name->begin);
    if (id) first = std::min(first, id->begin);
    return first;
  }
  size_t end() const {
    size_t last = arguments.end;
    if (name) last = std::max(last, name->end);
    if (id) last = std::max(last, id->end);
    return last;
  }
};

// Returns the end of the JSON object that begins at `begin`; npos if no object begins there.
size_t json_object_end(std::string_view text, size_t begin) {
  JsonScanner scanner;
  for (size_t i = begin; i < text.size() && scanner.state() == JsonScanner::State::kOpen; ++i) scanner.push(text[i]);
  return scanner.state() == JsonScanner::State::kDone ? begin + scanner.n_taken() : text.npos;
}

const Json& probe_arguments() {
  static const Json& arguments = *new Json(*parse_json(probe::kArguments, "probe"));
  return arguments;
}

std::optional<TextRange> find_json_arguments(std::string_view text) {
  for (size_t at = text.find('{'); at != text.npos; at = text.find('{', at + 1)) {
    const size_t end = json_object_end(text, at);
    if (end == text.npos) continue;
    const Result<Json> value = parse_json(text.substr(at, end - at), "probe");
    if (value.ok() && *value == probe_arguments()) return TextRange{at, end};
  }
  return std::nullopt;
}

// One argument: the positions of its key and value.
struct Argument {
  TextRange key, value;
};

std::optional<std::vector<Argument>> find_arguments(std::string_view text, size_t from) {
  constexpr std::array<std::string_view, 5> kKeys = {"kcount", "kflag", "klist", "kplace", "kzone"};
  constexpr std::array<std::string_view, 5> kValues = {"4711", "rue", "Kestrelitem", "Kestrelplace", "Kestrelzone"};
  std::vector<Argument> arguments;
  for (size_t i = 0; i < kKeys.size(); ++i) {
    const std::optional<TextRange> key = find_text(text, kKeys[i], from);
    if (!key) return std::nullopt;
    std::optional<TextRange> value = find_text(text, kValues[i], key->end);
    if (!value) return std::nullopt;
    if (kValues[i] == "rue") --value->begin;  // the value may be true or True, so include its first letter
    arguments.push_back({*key, *value});
    from = value->end;
  }
  return arguments;
}

// Finds the arguments in {key:value,key:<|"|>value<|"|>} or (key=value, key="value").
bool read_bare(std::string_view text, const std::vector<Argument>& arguments, size_t from, CallPlaces& places) {
  const auto between = [&](size_t begin, size_t end) { return text.substr(begin, end - begin); };
  const std::string_view number = between(arguments[0].key.end, arguments[0].value.begin);
  const std::string_view string = between(arguments[3].key.end, arguments[3].value.begin);
  const std::string_view separator = trim_marker_spaces(number).substr(0, 1);
  if ((separator != ":" && separator != "=") || !string.starts_with(number)) return false;
  // A template may quote all values, or only strings.
  const std::string_view bare = number.substr(0, number.find(separator) + 1);
  const bool quotes_all = number == string && number.size() > bare.size();
  if (!quotes_all && number != bare && !trim_marker_spaces(number.substr(bare.size())).empty()) return false;
  const std::string_view quote = string.substr(quotes_all ? bare.size() : number.size());
  const size_t last = arguments.back().value.end;
  if (quote.empty() || !text.substr(last).starts_with(quote)) return false;
  const char open = separator == "=" ? '(' : '{', close = separator == "=" ? ')' : '}';
  const size_t begin = text.find(open, from);
  const size_t end = text.find(close, last + quote.size());
  if (begin == text.npos || begin > arguments[0].key.begin || end == text.npos) return false;
  places.form = separator == "=" ? ArgumentsForm::kKeywords : ArgumentsForm::kBareObject;
  places.quote = places.form == ArgumentsForm::kBareObject ? std::string(quote) : std::string();
  places.arguments = {begin, end + 1};
  return true;
}

// Finds the arguments in <key>value</key>. The words before the opening tag of a key must be the same for the first and
// the last argument.
bool read_closing_keys(std::string_view text, const std::vector<Argument>& arguments, size_t from, CallPlaces& places) {
  const Argument &string = arguments[3], &last = arguments[4];
  const std::string_view to_first = text.substr(from, arguments[0].key.begin - from);
  const std::string_view to_next = text.substr(string.value.end, last.key.begin - string.value.end);
  constexpr std::string_view kClosing = "</", kEnd = ">";
  const size_t key = to_next.find(string.key.of(text));
  const std::string_view after_value = to_next.substr(0, key);
  const std::string_view before_key = to_next.substr(std::min(to_next.size(), to_next.find(kEnd, key) + kEnd.size()));
  const std::string closing = std::string(after_value) + std::string(last.key.of(text)) + std::string(kEnd);
  if (!after_value.ends_with(kClosing) || before_key.empty() || !to_first.ends_with(before_key) ||
      !text.substr(last.value.end).starts_with(closing)) {
    return false;
  }
  places.form = ArgumentsForm::kParameters;
  places.parameter = {.before_key = std::string(before_key),
                      .before_value = std::string(kEnd),
                      .before_other_value = std::string(kEnd),
                      .after_value = std::string(after_value),
                      .after_closing_key = std::string(kEnd)};
  places.arguments = {arguments[0].key.begin - before_key.size(), last.value.end + closing.size()};
  return text.substr(string.key.end, string.value.begin - string.key.end) == kEnd;
}

// Finds the arguments in <parameter=key>value</parameter> and similar forms.
bool read_parameters(std::string_view text, const std::vector<Argument>& arguments, size_t from, CallPlaces& places) {
  const auto between = [&](size_t begin, size_t end) { return text.substr(begin, end - begin); };
  const std::string_view to_first = between(from, arguments[0].key.begin);
  const std::string_view to_next = between(arguments[3].value.end, arguments[4].key.begin);
  const std::string_view after = text.substr(arguments[4].value.end);
  if (to_next.find(arguments[3].key.of(text)) != to_next.npos) return read_closing_keys(text, arguments, from, places);
  const size_t n_after = common_words_at_begin(to_next, after);
  const std::string_view before_key = to_next.substr(n_after);
  if (n_after == 0 || before_key.empty() || !to_first.ends_with(before_key)) return false;
  places.form = ArgumentsForm::kParameters;
  places.parameter.before_key = before_key;
  places.parameter.before_value = between(arguments[3].key.end, arguments[3].value.begin);
  places.parameter.before_other_value = between(arguments[0].key.end, arguments[0].value.begin);
  places.parameter.after_value = to_next.substr(0, n_after);
  places.arguments = {arguments[0].key.begin - before_key.size(), arguments[4].value.end + n_after};
  return !trim_marker_spaces(places.parameter.before_value).empty();
}

std::optional<CallPlaces> find_places(std::string_view text) {
  CallPlaces places;
  places.name = find_text(text, probe::kTool, 0);
  places.id = find_text(text, probe::kId, 0);
  if (!places.name && !places.id) return std::nullopt;
  if (const std::optional<TextRange> json = find_json_arguments(text)) {
    places.arguments = *json;
    return places;
  }
  if (!places.name) return std::nullopt;
  const size_t from = places.name->end;
  const std::optional<std::vector<Argument>> arguments = find_arguments(text, from);
  if (!arguments) return std::nullopt;
  if (!read_bare(text, *arguments, from, places) && !read_parameters(text, *arguments, from, places)) {
    return std::nullopt;
  }
  return places;
}

void add_literal(std::vector<CallPart>& parts, std::string_view text) {
  if (!text.empty()) parts.push_back({CallPart::Kind::kLiteral, std::string(text)});
}

bool is_first_index(char c) { return c == '0' || c == '1'; }

// Returns the position in a literal (text between the parts of a call) of the call's index: a digit that is larger by
// one in the second call.
std::optional<size_t> find_index(std::string_view text, std::string_view of_second) {
  if (text.size() != of_second.size()) return std::nullopt;
  const auto differs = std::mismatch(text.begin(), text.end(), of_second.begin());
  if (differs.first == text.end() || !is_first_index(*differs.first) || *differs.second != *differs.first + 1) {
    return std::nullopt;
  }
  if (!std::equal(differs.first + 1, text.end(), differs.second + 1)) return std::nullopt;
  return static_cast<size_t>(differs.first - text.begin());
}

// Returns the parts of a call. `text`: the first call. of_second: the literals (texts between the parts) of the second
// call, in the same order; empty if there is no second call.
std::vector<CallPart> parts_of(std::string_view text, const CallPlaces& places,
                               const std::vector<std::string>& of_second) {
  struct Part {
    TextRange place;
    CallPart::Kind kind;
  };
  std::vector<Part> known = {{places.arguments, CallPart::Kind::kArguments}};
  if (places.name) known.push_back({*places.name, CallPart::Kind::kName});
  if (places.id) known.push_back({*places.id, CallPart::Kind::kId});
  std::sort(known.begin(), known.end(), [](const Part& a, const Part& b) { return a.place.begin < b.place.begin; });
  std::vector<CallPart> parts;
  size_t at = 0;
  for (size_t i = 0; i < known.size(); ++i) {
    const std::string_view literal = text.substr(at, known[i].place.begin - at);
    const auto index = i < of_second.size() ? find_index(literal, of_second[i]) : std::nullopt;
    if (index) {
      add_literal(parts, literal.substr(0, *index));
      parts.push_back({CallPart::Kind::kIndex, {}});
      add_literal(parts, literal.substr(*index + 1));
    } else {
      add_literal(parts, literal);
    }
    parts.push_back({known[i].kind, {}});
    at = known[i].place.end;
  }
  add_literal(parts, text.substr(at));
  return parts;
}

// Returns the literals (texts before the name, the id and the arguments) of the second call. The first literal is cut
// to its last n_begin bytes. before_key: the text before the first argument, if the arguments are not JSON.
std::vector<std::string> literals_of_second(std::string_view text, size_t n_begin, std::string_view before_key) {
  std::vector<TextRange> known;
  const auto add = [&](std::optional<TextRange> place) {
    if (place) known.push_back(*place);
  };
  add(find_text(text, probe::kOtherTool, 0));
  add(find_text(text, probe::kOtherId, 0));
  add(find_json_arguments(text));
  if (const auto arguments = find_arguments(text, known.empty() ? 0 : known.front().end);
      arguments && !before_key.empty() && arguments->front().key.begin >= before_key.size()) {
    add(TextRange{arguments->front().key.begin - before_key.size(), arguments->back().value.end});
  }
  std::sort(known.begin(), known.end(), [](const TextRange& a, const TextRange& b) { return a.begin < b.begin; });
  std::vector<std::string> literals;
  size_t at = known.empty() || known[0].begin < n_begin ? 0 : known[0].begin - n_begin;
  for (const TextRange& place : known) {
    if (place.begin < at) return {};
    literals.emplace_back(text.substr(at, place.begin - at));
    at = place.end;
  }
  return literals;
}

// Finds the JSON object whose own members are the name and the arguments.
std::optional<CallEnvelope> find_envelope(std::string_view text, const CallPlaces& places) {
  if (places.form != ArgumentsForm::kJson || !places.name) return std::nullopt;
  const size_t first = std::min(places.name->begin, places.arguments.begin);
  const size_t last = std::max(places.name->end, places.arguments.end);
  for (size_t at = first; at-- > 0;) {
    if (text[at] != '{') continue;
    JsonScanner scanner;
    for (size_t i = at; i < text.size() && scanner.state() == JsonScanner::State::kOpen; ++i) scanner.push(text[i]);
    if (scanner.state() != JsonScanner::State::kDone || at + scanner.n_taken() < last) continue;
    CallEnvelope envelope;
    for (const JsonScanner::Member& member : scanner.members()) {
      const std::string key(text.substr(at + member.key_begin + 1, member.key_end - member.key_begin - 2));
      const TextRange value{at + member.value_begin, at + member.value_end};
      if (value.begin + 1 == places.name->begin && value.end == places.name->end + 1) envelope.name_key = key;
      if (value.begin == places.arguments.begin && value.end == places.arguments.end) envelope.arguments_key = key;
      const bool is_id = places.id && value.begin + 1 == places.id->begin;
      if (is_id || key.ends_with("_id")) envelope.id_key = key;
    }
    if (envelope.name_key.empty() || envelope.arguments_key.empty()) continue;
    envelope.before = text.substr(0, at);
    envelope.after = text.substr(at + scanner.n_taken());
    // An id outside of the JSON object is a separate part of the call.
    const bool id_is_outside = places.id && envelope.id_key.empty();
    return id_is_outside ? std::nullopt : std::optional(std::move(envelope));
  }
  return std::nullopt;
}

// Number of bytes of the longest sequence of whole words with which both texts end. The words may differ in the index
// of the call.
size_t n_common_opening(std::string_view before_first, std::string_view before_second) {
  const auto first = marker_words(before_first), second = marker_words(before_second);
  size_t n = 0;
  for (size_t i = 1; i <= std::min(first.size(), second.size()); ++i) {
    const std::string_view a = first[first.size() - i], b = second[second.size() - i];
    if (a != b && !(a == "0" && b == "1") && !(a == "1" && b == "2")) break;
    n += a.size();
  }
  return n;
}

// Returns the part of `text` before the end of the answer: it ends before the first special token of end_of_answer that
// the call does not have, and before the first three words of end_of_answer (or, if the text has only these, the first
// two or the first one).
std::string_view before_end(std::string_view text, const std::string& end_of_answer, std::string_view call) {
  const std::string_view end = trim_marker_spaces(end_of_answer);
  for (const std::string_view word : marker_words(end)) {
    const bool ends = is_special_token(word) && word.size() > 2 && call.find(word) == call.npos;
    if (ends) text = text.substr(0, text.find(word));
  }
  constexpr size_t kMaxWords = 3;
  const auto words = marker_words(end);
  size_t n_bytes = 0;
  for (size_t i = 0; i < std::min(kMaxWords, words.size()); ++i) n_bytes += words[i].size();
  for (size_t n = std::min(kMaxWords, words.size()); n > 0; n_bytes -= words[--n].size()) {
    if (const size_t at = text.find(end.substr(0, n_bytes)); at != text.npos) return text.substr(0, at);
  }
  return text;
}

// Returns the brackets and quotes at the beginning of `text` that close the JSON opened before the arguments.
std::string_view closing_json(std::string_view text) {
  const size_t end = text.find_first_not_of("}]\" \n");
  return trim_marker_spaces(text.substr(0, end));
}

}  // namespace

std::optional<CallSyntax> infer_call_syntax(const WrittenCalls& written) {
  const std::string_view one = written.one;
  std::optional<CallPlaces> places = find_places(one);
  if (!places) return std::nullopt;
  CallSyntax syntax;
  syntax.arguments = places->form;
  syntax.parameter = places->parameter;
  syntax.quote = places->quote;
  std::string_view before = one.substr(0, places->begin());
  // Spaces before the call belong to the layout of the answer, not to the call.
  while (!before.empty() && is_marker_space(before.front())) before.remove_prefix(1);
  const std::string_view after = one.substr(places->end());

  std::string_view begin = before, end = before_end(after, written.end_of_answer, one.substr(0, places->end()));
  std::vector<std::string> of_second;
  syntax.several = false;
  const std::optional<CallPlaces> first = written.two ? find_places(*written.two) : std::optional<CallPlaces>();
  if (first && first->end() < written.two->size()) {
    const std::string_view rest = std::string_view(*written.two).substr(first->end());
    size_t n_between = std::min(rest.find(probe::kOtherTool), rest.find(probe::kOtherId));
    if (const auto json = find_json_arguments(rest)) n_between = std::min(n_between, json->begin);
    if (n_between != rest.npos) {
      const std::string_view between = rest.substr(0, n_between);
      const size_t n_end = common_words_at_begin(between, after);
      const size_t n_begin = n_common_opening(before, between.substr(n_end));
      syntax.several = true;
      syntax.separator = between.substr(n_end, between.size() - n_end - n_begin);
      syntax.section_begin = before.substr(0, before.size() - n_begin);
      begin = before.substr(before.size() - n_begin);
      end = after.substr(0, n_end);
      // If the calls are in a section (section_begin is not empty), the text after the calls closes the section.
      // Without a section, the text after the calls is only the end of the answer.
      if (!syntax.section_begin.empty()) {
        syntax.section_end =
            trim_marker_spaces(before_end(after.substr(n_end), written.end_of_answer, one.substr(0, places->end())));
      }
      of_second = literals_of_second(rest, n_begin, syntax.parameter.before_key);
    }
  }
  if (!syntax.several && !written.end_of_answer.empty() && end.size() == after.size()) end = closing_json(after);
  const size_t offset = places->begin() - begin.size();
  const std::string call = std::string(one.substr(offset, places->end() + end.size() - offset));
  const auto shift = [offset](TextRange& place) { place = {place.begin - offset, place.end - offset}; };
  shift(places->arguments);
  if (places->name) shift(*places->name);
  if (places->id) shift(*places->id);
  syntax.parts = parts_of(call, *places, of_second);
  syntax.envelope = find_envelope(call, *places);
  syntax.triggers = call_triggers(syntax);
  if (syntax.triggers.empty()) return std::nullopt;
  return syntax;
}

}  // namespace ibid
