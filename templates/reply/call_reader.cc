#include "templates/reply/call_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/json_limits.h"
#include "templates/reply/json_scanner.h"
#include "templates/reply/reply_format.h"

namespace ibid {
namespace {

constexpr size_t kMaxNameBytes = 256;

// The keys under which models write arguments, even if the template uses another key.
constexpr std::array<std::string_view, 2> kArgumentKeys = {"arguments", "parameters"};
// Other keys that a call may have beside name and arguments.
constexpr std::array<std::string_view, 3> kOtherKeys = {"id", "type", "index"};

template <size_t N>
bool is_among(std::string_view key, const std::array<std::string_view, N>& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Returns the text of a quoted JSON string; nullopt if `json` is not one.
std::optional<std::string> unquoted(std::string_view json) {
  if (!json.starts_with('"')) return std::nullopt;
  Result<Json> value = parse_json(json, "a string");
  if (!value.ok() || !value->is_string()) return std::nullopt;
  return std::move(value->get_ref<std::string&>());
}

bool is_json_object(std::string_view text) {
  const Result<Json> value = parse_json(text, "arguments of a call");
  return value.ok() && value->is_object();
}

LooseNotation notation_of(const CallSyntax& syntax) {
  if (syntax.arguments == ArgumentsForm::kKeywords) return {.quote = {}, .open = '(', .close = ')', .separator = '='};
  return {.quote = syntax.quote, .open = '{', .close = '}', .separator = ':'};
}

}  // namespace

CallReader::CallReader(const CallSteps& steps, const OfferedTools& tools, size_t first_step)
    : steps_(steps), tools_(tools), step_(first_step) {}

CallReader::State CallReader::read(std::string_view text, bool at_end) {
  while (step_ < steps_.steps.size()) {
    const Step result = step(text, at_end);
    if (result == Step::kBad) return State::kBad;
    if (result == Step::kDone) {
      ++step_;
    } else if (!at_end) {
      return State::kOpen;
    } else if (only_closing_is_missing(text)) {
      at_ = text.size();
      break;
    } else {
      return State::kBad;
    }
  }
  return has_arguments_ && !name_.empty() && is_json_object(call(text).arguments) ? State::kDone : State::kBad;
}

CallReader::Step CallReader::step(std::string_view text, bool at_end) {
  switch (current().kind) {
    case CallStep::Kind::kWord: return read_word(text);
    case CallStep::Kind::kName: return read_name(text);
    case CallStep::Kind::kId: return read_id(text);
    case CallStep::Kind::kIndex: return read_index(text);
    case CallStep::Kind::kArguments: return read_arguments(text, at_end);
    case CallStep::Kind::kEnvelope: return read_envelope(text);
  }
  return Step::kBad;
}

void CallReader::skip_spaces(std::string_view text) {
  while (at_ < text.size() && is_marker_space(text[at_])) ++at_;
}

CallReader::Step CallReader::read_word(std::string_view text) {
  skip_spaces(text);
  const std::string& word = current().word;
  const std::string_view there = text.substr(at_, word.size());
  if (there == word) {
    at_ += word.size();
    return Step::kDone;
  }
  if (std::string_view(word).starts_with(there)) return Step::kMore;
  if (current().n_optional == 0) return Step::kBad;
  step_ += current().n_optional - 1;
  return Step::kDone;
}

CallReader::Step CallReader::read_until(std::string_view text, std::string_view stops, std::string& out) {
  skip_spaces(text);
  if (at_ == text.size()) return Step::kMore;
  std::string all(stops);
  for (size_t i = step_ + 1; i < steps_.steps.size(); ++i) {
    if (steps_.steps[i].kind == CallStep::Kind::kWord) all += steps_.steps[i].word.front();
    if (steps_.steps[i].n_optional == 0) break;
  }
  const size_t end = text.substr(0, std::min(text.size(), at_ + kMaxNameBytes + 1)).find_first_of(all, at_);
  if (end == text.npos) return text.size() - at_ > kMaxNameBytes ? Step::kBad : Step::kMore;
  if (end == at_) return Step::kBad;
  out = text.substr(at_, end - at_);
  at_ = end;
  return Step::kDone;
}

bool CallReader::set_name(std::string_view name) {
  if (!tools_.has(name)) return false;
  name_ = name;
  return true;
}

CallReader::Step CallReader::read_name(std::string_view text) {
  std::string name;
  const Step result = read_until(text, " \n\t\r<[({\"'>,|", name);
  if (result != Step::kDone) return result;
  return set_name(name) ? Step::kDone : Step::kBad;
}

// An id may contain the name: "functions.NAME:0".
CallReader::Step CallReader::read_id(std::string_view text) {
  const Step result = read_until(text, " \n\t\r<[{\"'", id_);
  if (result != Step::kDone || !steps_.names_in_ids) return result;
  constexpr std::string_view kPrefix = "functions.";
  std::string_view name = id_;
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  if (const size_t colon = name.rfind(':'); colon != name.npos) name = name.substr(0, colon);
  return set_name(name) ? Step::kDone : Step::kBad;
}

CallReader::Step CallReader::read_index(std::string_view text) {
  std::string index;
  const Step result = read_until(text, " \n\t\r<[{\"'", index);
  if (result != Step::kDone) return result;
  if (index.find_first_not_of("0123456789") != index.npos) return Step::kBad;
  if (!steps_.id_begin.empty()) id_ = steps_.id_begin + name_ + steps_.id_middle + index;
  return Step::kDone;
}

CallReader::Step CallReader::read_arguments(std::string_view text, bool at_end) {
  if (steps_.syntax.arguments == ArgumentsForm::kJson) return read_json(text);
  if (steps_.syntax.arguments != ArgumentsForm::kParameters) return read_loose(text);
  if (!parameters_) {
    std::vector<std::string> end;
    for (size_t i = step_ + 1; i < steps_.steps.size(); ++i) end.push_back(steps_.steps[i].word);
    if (end.empty() || end.front().empty() || steps_.before_key.empty() || steps_.after_value.empty()) {
      return Step::kBad;
    }
    parameters_.emplace(steps_, std::move(end), tools_, name_);
    parameters_->begin_at(at_);
  }
  const ParameterReader::State state = parameters_->read(text, at_end);
  at_ = parameters_->n_taken();
  if (state == ParameterReader::State::kOpen) return Step::kMore;
  if (state == ParameterReader::State::kBad) return Step::kBad;
  arguments_ = parameters_->json();
  has_arguments_ = true;
  return Step::kDone;
}

CallReader::Step CallReader::read_json(std::string_view text) {
  if (!json_) {
    skip_spaces(text);
    if (at_ == text.size()) return Step::kMore;
    if (text[at_] != '{') {  // no arguments follow: a call without arguments
      if (step_ + 1 == steps_.steps.size()) return Step::kBad;
      arguments_ = "{}";
      has_arguments_ = true;
      return Step::kDone;
    }
    json_begin_ = at_;
    json_.emplace();
  }
  while (at_ < text.size() && json_->state() == JsonScanner::State::kOpen) {
    if (json_->push(text[at_]) == JsonScanner::State::kBad) return Step::kBad;
    ++at_;
  }
  if (json_->state() != JsonScanner::State::kDone) return Step::kMore;
  arguments_begin_ = json_begin_;
  arguments_end_ = at_;
  has_arguments_ = true;
  return Step::kDone;
}

CallReader::Step CallReader::read_loose(std::string_view text) {
  const LooseNotation notation = notation_of(steps_.syntax);
  if (!loose_) {
    skip_spaces(text);
    if (at_ == text.size()) return Step::kMore;
    if (text[at_] != notation.open) return Step::kBad;
    json_begin_ = at_;
    loose_.emplace(notation);
  }
  const LooseScanner::State state = loose_->scan(text.substr(json_begin_));
  at_ = json_begin_ + loose_->n_taken();
  if (state == LooseScanner::State::kOpen) return Step::kMore;
  if (state == LooseScanner::State::kBad) return Step::kBad;
  std::optional<std::string> json = loose_object_json(text.substr(json_begin_, at_ - json_begin_), notation);
  if (!json) return Step::kBad;
  arguments_ = *std::move(json);
  has_arguments_ = true;
  return Step::kDone;
}

CallReader::Step CallReader::read_envelope(std::string_view text) {
  if (!json_) {
    skip_spaces(text);
    if (at_ == text.size()) return Step::kMore;
    json_begin_ = at_;
    json_.emplace();
  }
  while (at_ < text.size() && json_->state() == JsonScanner::State::kOpen) {
    const size_t n_members = json_->members().size();
    if (json_->push(text[at_]) == JsonScanner::State::kBad) return Step::kBad;
    ++at_;
    const bool ends = json_->state() == JsonScanner::State::kDone || json_->members().size() > n_members;
    const bool has_key = n_members > 0 && json_->members().back().key_end != 0;
    if ((ends || has_key) && !check_members(text)) return Step::kBad;
  }
  if (json_->state() != JsonScanner::State::kDone) return Step::kMore;
  return finish_envelope(text) ? Step::kDone : Step::kBad;
}

// Checks the keys and the name read so far; returns false if no call can have them: an answer may be any JSON object.
bool CallReader::check_members(std::string_view text) {
  const CallEnvelope& envelope = *steps_.syntax.envelope;
  for (; n_members_checked_ < json_->members().size(); ++n_members_checked_) {
    const JsonScanner::Member& member = json_->members()[n_members_checked_];
    if (member.key_end == 0) return true;
    const std::string_view quoted = text.substr(json_begin_ + member.key_begin, member.key_end - member.key_begin);
    const std::string_view key = quoted.substr(1, quoted.size() - 2);
    const bool is_name = key == envelope.name_key;
    if (!is_name && key != envelope.arguments_key && key != envelope.id_key && !is_among(key, kArgumentKeys) &&
        !is_among(key, kOtherKeys)) {
      return false;
    }
    if (member.value_end == 0) return true;
    if (!is_name) continue;
    const std::optional<std::string> name =
        unquoted(text.substr(json_begin_ + member.value_begin, member.value_end - member.value_begin));
    if (!name || !name_.empty() || !set_name(*name)) return false;
  }
  return true;
}

bool CallReader::finish_envelope(std::string_view text) {
  const CallEnvelope& envelope = *steps_.syntax.envelope;
  for (const JsonScanner::Member& member : json_->members()) {
    const auto part = [&](size_t begin, size_t end) { return text.substr(json_begin_ + begin, end - begin); };
    const std::string_view key = part(member.key_begin + 1, member.key_end - 1);
    const std::string_view value = part(member.value_begin, member.value_end);
    if (key == envelope.arguments_key || is_among(key, kArgumentKeys)) {
      if (has_arguments_) return false;
      has_arguments_ = true;
      arguments_begin_ = json_begin_ + member.value_begin;
      arguments_end_ = json_begin_ + member.value_end;
      // Some models write the object as a string of JSON.
      if (std::optional<std::string> inner = unquoted(value)) arguments_ = *std::move(inner);
    } else if (key == envelope.id_key || (key == "id" && envelope.id_key.empty())) {
      if (std::optional<std::string> id = unquoted(value)) id_ = *std::move(id);
      if (id_.empty() && value.find_first_not_of("0123456789") == value.npos) id_ = value;
    }
  }
  if (!has_arguments_) arguments_ = "{}";
  has_arguments_ = true;
  return !name_.empty();
}

bool CallReader::only_closing_is_missing(std::string_view text) const {
  if (!has_arguments_) return false;
  for (size_t i = step_; i < steps_.steps.size(); ++i) {
    if (steps_.steps[i].kind != CallStep::Kind::kWord) return false;
  }
  return std::string_view(current().word).starts_with(text.substr(std::min(at_, text.size())));
}

ParsedCall CallReader::call(std::string_view text) const {
  const std::string_view spelled = text.substr(arguments_begin_, arguments_end_ - arguments_begin_);
  return {id_, name_, arguments_.empty() ? std::string(spelled) : arguments_};
}

std::string_view CallReader::arguments_so_far(std::string_view text) const {
  if (!json_ || name_.empty()) return {};
  if (!steps_.syntax.envelope) return text.substr(json_begin_, json_->n_taken());
  for (const JsonScanner::Member& member : json_->members()) {
    if (member.key_end == 0 || member.value_begin == 0) continue;
    const std::string_view quoted = text.substr(json_begin_ + member.key_begin, member.key_end - member.key_begin);
    const std::string_view key = quoted.substr(1, quoted.size() - 2);
    if (key != steps_.syntax.envelope->arguments_key && !is_among(key, kArgumentKeys)) continue;
    if (text[json_begin_ + member.value_begin] != '{') return {};
    const size_t end = member.value_end != 0 ? member.value_end : json_->n_taken();
    return text.substr(json_begin_ + member.value_begin, end - member.value_begin);
  }
  return {};
}

namespace {

void add_words(std::vector<CallStep>& steps, const std::string& text) {
  for (std::string& word : solid_marker_words(text)) steps.push_back({CallStep::Kind::kWord, std::move(word)});
}

void add_parts(CallSteps& out) {
  const std::vector<CallPart>& parts = out.syntax.parts;
  size_t optional_from = SIZE_MAX;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool before_id = i > 0 && i + 1 < parts.size() && parts[i + 1].kind == CallPart::Kind::kId;
    switch (parts[i].kind) {
      case CallPart::Kind::kLiteral:
        if (before_id) optional_from = out.steps.size();
        add_words(out.steps, parts[i].text);
        break;
      case CallPart::Kind::kName: out.steps.push_back({CallStep::Kind::kName}); break;
      case CallPart::Kind::kIndex: out.steps.push_back({CallStep::Kind::kIndex}); break;
      case CallPart::Kind::kArguments: out.steps.push_back({CallStep::Kind::kArguments}); break;
      case CallPart::Kind::kId:
        out.steps.push_back({CallStep::Kind::kId});
        // Models may omit an id that the template writes.
        if (optional_from < out.steps.size() - 1) {
          out.steps[optional_from].n_optional = out.steps.size() - optional_from;
        }
        break;
    }
  }
}

bool is_tag(const std::string& word) { return word.front() == '<' || word.front() == '['; }

void note_ids(CallSteps& out) {
  const auto has = [&](CallPart::Kind kind) {
    return std::any_of(out.syntax.parts.begin(), out.syntax.parts.end(),
                       [kind](const CallPart& part) { return part.kind == kind; });
  };
  out.names_in_ids = !out.syntax.envelope && !has(CallPart::Kind::kName) && has(CallPart::Kind::kId);
  const std::vector<CallPart>& parts = out.syntax.parts;
  for (size_t i = 1; i + 2 < parts.size(); ++i) {
    if (parts[i].kind != CallPart::Kind::kName || parts[i + 2].kind != CallPart::Kind::kIndex) continue;
    const std::vector<std::string> before = solid_marker_words(parts[i - 1].text);
    if (before.empty() || is_tag(before.back())) continue;
    out.id_begin = before.back();
    out.id_middle = parts[i + 1].text;
  }
}

}  // namespace

CallSteps make_call_steps(const CallSyntax& syntax) {
  CallSteps out;
  out.syntax = syntax;
  add_words(out.steps, syntax.section_begin);
  out.n_opening = out.steps.size();
  if (!syntax.optional_begin.empty()) out.steps.push_back({CallStep::Kind::kWord, syntax.optional_begin, 1});
  if (syntax.envelope) {
    add_words(out.steps, syntax.envelope->before);
    out.steps.push_back({CallStep::Kind::kEnvelope});
    add_words(out.steps, syntax.envelope->after);
  } else {
    add_parts(out);
  }
  out.separator = solid_marker_words(syntax.separator);
  out.section_end = solid_marker_words(syntax.section_end);
  out.before_key = solid_marker_words(syntax.parameter.before_key);
  out.before_value = solid_marker_words(syntax.parameter.before_value);
  out.before_other_value = solid_marker_words(syntax.parameter.before_other_value);
  out.after_value = solid_marker_words(syntax.parameter.after_value);
  note_ids(out);
  return out;
}

std::vector<std::string> call_triggers(const CallSyntax& syntax) {
  const CallSteps steps = make_call_steps(syntax);
  std::vector<std::string> triggers;
  const auto add = [&](const CallStep& step) {
    std::string word = step.kind == CallStep::Kind::kEnvelope ? "{" : step.word;
    if (!word.empty() && std::find(triggers.begin(), triggers.end(), word) == triggers.end()) {
      triggers.push_back(std::move(word));
    }
  };
  if (steps.steps.empty()) return triggers;
  add(steps.steps.front());
  if (!syntax.optional_begin.empty() && steps.n_opening == 0 && steps.steps.size() > 1) add(steps.steps[1]);
  // Models may also omit the opening of the section. Then the call's own tag begins the call.
  if (steps.n_opening > 0 && steps.n_opening < steps.steps.size()) {
    const CallStep& begin = steps.steps[steps.n_opening];
    if (begin.kind == CallStep::Kind::kWord && is_tag(begin.word) && begin.word.size() > 2) add(begin);
  }
  return triggers;
}

namespace {

std::string_view leading_spaces(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_marker_space(text[n])) ++n;
  return text.substr(0, n);
}

std::string_view trailing_spaces(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && is_marker_space(text[begin - 1])) --begin;
  return text.substr(begin);
}

}  // namespace

ParameterReader::ParameterReader(const CallSteps& steps, std::vector<std::string> end, const OfferedTools& tools,
                                 std::string tool)
    : steps_(steps), end_(std::move(end)), tools_(tools), tool_(std::move(tool)) {}

ParameterReader::State ParameterReader::read(std::string_view text, bool at_end) {
  for (;;) {
    const size_t at = at_;
    const Wants wants = wants_;
    State state = State::kOpen;
    switch (wants_) {
      case Wants::kKeyMarker: state = read_key_marker(text); break;
      case Wants::kKey: state = read_key(text); break;
      case Wants::kValueMarker: state = read_value_marker(text); break;
      case Wants::kEdge: state = skip_edge(text); break;
      case Wants::kValue: state = read_value(text, at_end); break;
    }
    if (state != State::kOpen) return state;
    if (at_ != at || wants_ != wants) continue;
    if (!at_end) return state;
    // The text ended where a next key or the end may follow: only the closing words of the call can be missing.
    return wants_ == Wants::kKeyMarker ? State::kDone : State::kBad;
  }
}

ParameterReader::Match ParameterReader::match(std::string_view text, const std::vector<std::string>& words,
                                              size_t& at) {
  size_t now = at;
  for (const std::string& word : words) {
    while (now < text.size() && is_marker_space(text[now])) ++now;
    const std::string_view there = text.substr(now, word.size());
    if (there != std::string_view(word).substr(0, there.size())) return Match::kNo;
    if (there.size() < word.size()) return Match::kMore;
    now += word.size();
  }
  at = now;
  return Match::kYes;
}

ParameterReader::State ParameterReader::read_key_marker(std::string_view text) {
  const Match key = match(text, steps_.before_key, at_);
  if (key == Match::kYes) {
    key_begin_ = at_;
    wants_ = Wants::kKey;
    return State::kOpen;
  }
  size_t behind = at_;
  const Match end = match(text, {end_.front()}, behind);
  if (end == Match::kYes) return State::kDone;
  return key == Match::kMore || end == Match::kMore ? State::kOpen : State::kBad;
}

ParameterReader::State ParameterReader::read_key(std::string_view text) {
  std::string stops = " \n\t\r<>\"";
  for (const auto* words : {&steps_.before_value, &steps_.before_other_value}) {
    if (!words->empty()) stops += words->front().front();
  }
  const size_t end = text.find_first_of(stops, at_);
  if (end == text.npos) {
    at_ = text.size();
    return State::kOpen;
  }
  at_ = end;
  if (end == key_begin_) return State::kBad;
  key_ = text.substr(key_begin_, end - key_begin_);
  wants_ = Wants::kValueMarker;
  return State::kOpen;
}

ParameterReader::State ParameterReader::read_value_marker(std::string_view text) {
  const Match string = match(text, steps_.before_value, at_);
  Match other = Match::kNo;
  if (string != Match::kYes && steps_.before_other_value != steps_.before_value) {
    other = match(text, steps_.before_other_value, at_);
  }
  if (string == Match::kYes || other == Match::kYes) {
    is_other_ = string != Match::kYes;
    wants_ = Wants::kEdge;
    return State::kOpen;
  }
  return string == Match::kMore || other == Match::kMore ? State::kOpen : State::kBad;
}

// The spaces that the template writes after the marker belong to the marker. All text after them belongs to the value.
ParameterReader::State ParameterReader::skip_edge(std::string_view text) {
  const ParameterSyntax& syntax = steps_.syntax.parameter;
  const std::string_view edge = trailing_spaces(is_other_ ? syntax.before_other_value : syntax.before_value);
  const std::string_view there = text.substr(at_, edge.size());
  if (there.size() < edge.size() && edge.starts_with(there)) return State::kOpen;
  if (there == edge) at_ += edge.size();
  value_begin_ = at_;
  wants_ = Wants::kValue;
  return State::kOpen;
}

ParameterReader::State ParameterReader::read_value(std::string_view text, bool at_end) {
  const std::string& marker = steps_.after_value.front();
  for (;;) {
    const size_t found = text.find(marker, at_);
    if (found == text.npos) {
      const size_t n_unsure = marker.size() - 1;
      if (text.size() > at_ + n_unsure) at_ = text.size() - n_unsure;
      return at_end ? State::kBad : State::kOpen;
    }
    at_ = found;
    size_t behind = found;
    Match match_all = match(text, steps_.after_value, behind);
    if (match_all == Match::kYes) match_all = goes_on(text, behind);
    if (match_all == Match::kMore && !at_end) return State::kOpen;
    if (match_all == Match::kNo) {
      at_ = found + 1;  // the value itself contains the marker's text
      continue;
    }
    end_value(text.substr(value_begin_, found - value_begin_));
    at_ = behind > found ? behind : text.size();
    wants_ = Wants::kKeyMarker;
    return State::kOpen;
  }
}

ParameterReader::Match ParameterReader::goes_on(std::string_view text, size_t at) const {
  const Match key = match(text, steps_.before_key, at);
  const Match end = match(text, {end_.front()}, at);
  if (key == Match::kYes || end == Match::kYes) return Match::kYes;
  return key == Match::kMore || end == Match::kMore ? Match::kMore : Match::kNo;
}

void ParameterReader::end_value(std::string_view value) {
  const std::string_view edge = leading_spaces(steps_.syntax.parameter.after_value);
  if (value.ends_with(edge)) value.remove_suffix(edge.size());
  std::optional<bool> is_string;
  if (steps_.before_other_value != steps_.before_value) is_string = !is_other_;
  json_ += json_.empty() ? "{" : ", ";
  json_ += json_string(key_) + ": " + marked_value_json(value, tools_.types_of(tool_, key_), is_string);
}

}  // namespace ibid
