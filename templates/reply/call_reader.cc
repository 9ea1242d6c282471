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

// The keys under which models write arguments, even if the template uses another key.
constexpr std::array<std::string_view, 2> kArgumentKeys = {"arguments", "parameters"};
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

const CallEnvelope& envelope_of(const CallSyntax& syntax) {
  static const CallEnvelope& usual = *new CallEnvelope{.name_key = "name", .arguments_key = "arguments"};
  return syntax.envelope ? *syntax.envelope : usual;
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
    case CallStep::Kind::kWord: return has_arguments_ ? read_closing(text, at_end) : read_word(text, at_end);
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

CallReader::Step CallReader::read_word(std::string_view text, bool at_end) {
  skip_spaces(text);
  const std::string& word = current().word;
  const std::string_view there = text.substr(at_, word.size());
  if (there == word) {
    at_ += word.size();
    return Step::kDone;
  }
  const std::string& other = current().other_spelling;
  if (!other.empty() && text.substr(at_).starts_with(other)) {
    at_ += other.size();
    return Step::kDone;
  }
  if (!at_end && (std::string_view(word).starts_with(there) || std::string_view(other).starts_with(text.substr(at_)))) {
    return Step::kMore;
  }
  if (current().n_optional == 0) return at_end && std::string_view(word).starts_with(there) ? Step::kMore : Step::kBad;
  step_ += current().n_optional - 1;
  return Step::kDone;
}

// A closing word after the arguments may be missing if one of the later closing words, the end of the section or
// another call follows.
CallReader::Step CallReader::read_closing(std::string_view text, bool at_end) {
  bool unsure = false;
  for (size_t i = step_; i < steps_.steps.size(); ++i) {
    if (steps_.steps[i].kind != CallStep::Kind::kWord) return Step::kBad;
    size_t at = at_;
    const WordMatch match = match_words(text, {steps_.steps[i].word}, at);
    unsure |= match == WordMatch::kMore;
    if (match != WordMatch::kYes) continue;
    if (unsure && !at_end) return Step::kMore;
    at_ = at;
    step_ = i;
    return Step::kDone;
  }
  std::vector<std::string> next = steps_.openers;
  if (!steps_.section_end.empty()) next.push_back(steps_.section_end.front());
  const WordMatch match = match_any(text, next, at_);
  if (match == WordMatch::kMore || unsure) return Step::kMore;
  if (match == WordMatch::kNo) return Step::kBad;
  step_ = steps_.steps.size() - 1;
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
  // Models also write a group and a dot before the tool's name: "functions.NAME".
  const size_t dot = name.rfind('.');
  if (!tools_.has(name) && dot != name.npos) name.remove_prefix(dot + 1);
  if (!tools_.has(name)) return false;
  name_ = name;
  return true;
}

// Models also write an object that has name and arguments, where the template writes these separately.
CallReader::Step CallReader::read_object(std::string_view text) {
  const Step result = read_envelope(text);
  if (result != Step::kDone) return result;
  while (current().kind != CallStep::Kind::kArguments) {
    if (++step_ == steps_.steps.size()) return Step::kBad;
  }
  return Step::kDone;
}

CallReader::Step CallReader::read_name(std::string_view text) {
  if (json_) return read_object(text);
  skip_spaces(text);
  const bool may_be_object = step_ > 0 && steps_.syntax.arguments != ArgumentsForm::kKeywords;
  if (may_be_object && text.substr(at_).starts_with('{')) return read_object(text);
  std::string name;
  const Step result = read_until(text, " \n\t\r<[({\"'>,|", name);
  if (result != Step::kDone) return result;
  return set_name(name) ? Step::kDone : Step::kBad;
}

// An id may contain the tool's name: "functions.NAME:0".
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
  if (steps_.syntax.arguments == ArgumentsForm::kJson || json_) return read_json(text);
  if (steps_.syntax.arguments != ArgumentsForm::kParameters) return read_loose(text);
  if (!parameters_) {
    skip_spaces(text);
    if (at_ == text.size() && !at_end) return Step::kMore;
    if (text.substr(at_).starts_with('{')) return read_json(text);
    std::vector<std::string> end;
    for (size_t i = step_ + 1; i < steps_.steps.size(); ++i) end.push_back(steps_.steps[i].word);
    if (end.empty()) end = steps_.section_end;
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
  arguments_ = tools_.unwrapped(name_, parameters_->json());
  has_arguments_ = true;
  return Step::kDone;
}

CallReader::Step CallReader::read_json(std::string_view text) {
  if (!json_) {
    skip_spaces(text);
    if (at_ == text.size()) return Step::kMore;
    if (text[at_] != '{') {  // if no arguments follow, the call has none
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
  arguments_ = tools_.typed(name_, *json);
  has_arguments_ = true;
  return Step::kDone;
}

CallReader::Step CallReader::begin_envelope(std::string_view text) {
  skip_spaces(text);
  if (text.size() < at_ + 2) return at_ < text.size() && text[at_] != '{' ? Step::kBad : Step::kMore;
  doubled_ = envelope_of(steps_.syntax).may_be_doubled && text.substr(at_).starts_with("{{");
  if (doubled_) ++at_;
  json_begin_ = at_;
  in_envelope_ = true;
  json_.emplace();
  return Step::kDone;
}

CallReader::Step CallReader::read_envelope(std::string_view text) {
  if (!json_) {
    if (const Step begun = begin_envelope(text); begun != Step::kDone) return begun;
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
  if (doubled_) {
    skip_spaces(text);
    if (at_ == text.size()) return Step::kMore;
    if (text[at_++] != '}') return Step::kBad;
  }
  return finish_envelope(text) ? Step::kDone : Step::kBad;
}

// Checks the members of the JSON object that were read since the last call. Returns false if the tool's name is given
// twice, or if no offered tool has this name.
bool CallReader::check_members(std::string_view text) {
  const CallEnvelope& envelope = envelope_of(steps_.syntax);
  for (; n_members_checked_ < json_->members().size(); ++n_members_checked_) {
    const JsonScanner::Member& member = json_->members()[n_members_checked_];
    if (member.key_end == 0) return true;
    const std::string_view quoted = text.substr(json_begin_ + member.key_begin, member.key_end - member.key_begin);
    const std::string_view key = quoted.substr(1, quoted.size() - 2);
    if (member.value_end == 0) return true;
    if (key != envelope.name_key) continue;
    const std::optional<std::string> name =
        unquoted(text.substr(json_begin_ + member.value_begin, member.value_end - member.value_begin));
    if (!name || !name_.empty() || !set_name(*name)) return false;
  }
  return true;
}

bool CallReader::finish_envelope(std::string_view text) {
  const CallEnvelope& envelope = envelope_of(steps_.syntax);
  for (const JsonScanner::Member& member : json_->members()) {
    const auto part = [&](size_t begin, size_t end) { return text.substr(json_begin_ + begin, end - begin); };
    const std::string_view key = part(member.key_begin + 1, member.key_end - 1);
    const std::string_view value = part(member.value_begin, member.value_end);
    if (key == envelope.arguments_key || is_among(key, kArgumentKeys)) {
      if (has_arguments_) return false;
      has_arguments_ = true;
      arguments_begin_ = json_begin_ + member.value_begin;
      arguments_end_ = json_begin_ + member.value_end;
      if (value == "null" || value == "\"\"") arguments_ = "{}";
      // Some models write the arguments as a string of JSON.
      if (std::optional<std::string> inner = unquoted(value); inner && !inner->empty()) arguments_ = *std::move(inner);
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
  const std::string_view rest = trim_marker_spaces(text.substr(std::min(at_, text.size())));
  return std::any_of(steps_.steps.begin() + static_cast<ptrdiff_t>(step_), steps_.steps.end(),
                     [&](const CallStep& step) { return std::string_view(step.word).starts_with(rest); });
}

ParsedCall CallReader::call(std::string_view text) const {
  const std::string_view spelled = text.substr(arguments_begin_, arguments_end_ - arguments_begin_);
  return {id_, name_, arguments_.empty() ? std::string(spelled) : arguments_};
}

std::string_view CallReader::arguments_so_far(std::string_view text) const {
  if (!json_ || name_.empty()) return {};
  if (!in_envelope_) return text.substr(json_begin_, json_->n_taken());
  for (const JsonScanner::Member& member : json_->members()) {
    if (member.key_end == 0 || member.value_begin == 0) continue;
    const std::string_view quoted = text.substr(json_begin_ + member.key_begin, member.key_end - member.key_begin);
    const std::string_view key = quoted.substr(1, quoted.size() - 2);
    if (key != envelope_of(steps_.syntax).arguments_key && !is_among(key, kArgumentKeys)) continue;
    if (text[json_begin_ + member.value_begin] != '{') return {};
    const size_t end = member.value_end != 0 ? member.value_end : json_->n_taken();
    return text.substr(json_begin_ + member.value_begin, end - member.value_begin);
  }
  return {};
}

}  // namespace ibid
