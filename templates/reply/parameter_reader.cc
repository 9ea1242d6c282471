#include "templates/reply/parameter_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "templates/reply/json_scanner.h"
#include "templates/reply/reply_format.h"

namespace ibid {
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

// Text between these two markers is a string without any conversion (XML).
constexpr std::string_view kCdataBegin = "<![CDATA[", kCdataEnd = "]]>";

}  // namespace

ParameterReader::ParameterReader(const CallSteps& steps, std::vector<std::string> end, const OfferedTools& tools,
                                 std::string tool)
    : steps_(steps), end_(std::move(end)), tools_(tools), tool_(std::move(tool)) {}

ParameterReader::State ParameterReader::read(std::string_view text, bool at_end) {
  for (;;) {
    const size_t at = at_;
    const Expected expected = expected_;
    State state = State::kOpen;
    switch (expected_) {
      case Expected::kKeyMarker: state = read_key_marker(text, at_end); break;
      case Expected::kKey: state = read_key(text); break;
      case Expected::kValueMarker: state = read_value_marker(text); break;
      case Expected::kEdge: state = skip_edge(text); break;
      case Expected::kValue: state = read_value(text, at_end); break;
    }
    if (state != State::kOpen) return state;
    if (at_ != at || expected_ != expected) continue;
    if (!at_end) return state;
    // The text ended where a key or the end of the call may follow, so only closing words of the call can be missing.
    return expected_ == Expected::kKeyMarker && !json_.empty() ? State::kDone : State::kBad;
  }
}

WordMatch ParameterReader::match_key_marker(std::string_view text, size_t& at) const {
  size_t after = at;
  const WordMatch marker = match_words(text, steps_.before_key, after);
  if (marker != WordMatch::kYes) return marker;
  // If keys have closing tags, the marker of a key ("<") may also be the beginning of a closing tag ("</").
  if (!steps_.after_closing_key.empty()) {
    if (after == text.size()) return WordMatch::kMore;
    if (text[after] == '/') return WordMatch::kNo;
  }
  at = after;
  return marker;
}

WordMatch ParameterReader::match_end_of_value(std::string_view text, size_t& at) const {
  size_t after = at;
  WordMatch match = match_words(text, steps_.after_value, after);
  if (match != WordMatch::kYes || steps_.after_closing_key.empty()) {
    if (match == WordMatch::kYes) at = after;
    return match;
  }
  const std::string_view key = text.substr(after, key_.size());
  if (!std::string_view(key_).starts_with(key)) return WordMatch::kNo;
  if (key.size() < key_.size()) return WordMatch::kMore;
  after += key.size();
  match = match_words(text, steps_.after_closing_key, after);
  if (match == WordMatch::kYes) at = after;
  return match;
}

ParameterReader::State ParameterReader::read_key_marker(std::string_view text, bool at_end) {
  const WordMatch key = match_key_marker(text, at_);
  if (key == WordMatch::kYes) {
    key_begin_ = at_;
    expected_ = Expected::kKey;
    return State::kOpen;
  }
  // An answer that ends before the first argument has a call that is cut off.
  const bool may_end = at_end && !json_.empty();
  if (key == WordMatch::kMore && !may_end) return State::kOpen;
  const WordMatch end = goes_on(text, at_, may_end);
  if (end == WordMatch::kYes) return State::kDone;
  return end == WordMatch::kMore ? State::kOpen : State::kBad;
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
  expected_ = Expected::kValueMarker;
  return State::kOpen;
}

// Matches the marker before a value that is not a string (before_other_value).
WordMatch ParameterReader::match_other(std::string_view text, size_t& at) const {
  const std::vector<std::string>& words = steps_.before_other_value;
  if (steps_.type_word == SIZE_MAX) return match_words(text, words, at);
  const auto split = words.begin() + static_cast<ptrdiff_t>(steps_.type_word);
  size_t now = at;
  if (const WordMatch before = match_words(text, {words.begin(), split}, now); before != WordMatch::kYes) return before;
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  while (now < text.size() && is_letter(text[now])) ++now;
  if (now == text.size()) return WordMatch::kMore;
  const WordMatch after = match_words(text, {split + 1, words.end()}, now);
  if (after == WordMatch::kYes) at = now;
  return after;
}

ParameterReader::State ParameterReader::read_value_marker(std::string_view text) {
  const WordMatch string = match_words(text, steps_.before_value, at_);
  WordMatch other = WordMatch::kNo;
  if (string != WordMatch::kYes && steps_.before_other_value != steps_.before_value) other = match_other(text, at_);
  if (string == WordMatch::kYes || other == WordMatch::kYes) {
    is_other_ = string != WordMatch::kYes;
    expected_ = Expected::kEdge;
    return State::kOpen;
  }
  return string == WordMatch::kMore || other == WordMatch::kMore ? State::kOpen : State::kBad;
}

// The spaces that the template writes after the marker belong to the marker. All text after them belongs to the value.
ParameterReader::State ParameterReader::skip_edge(std::string_view text) {
  const ParameterSyntax& syntax = steps_.syntax.parameter;
  const std::string_view edge = trailing_spaces(is_other_ ? syntax.before_other_value : syntax.before_value);
  const std::string_view there = text.substr(at_, edge.size());
  if (there.size() < edge.size() && edge.starts_with(there)) return State::kOpen;
  if (there == edge) at_ += edge.size();
  value_begin_ = at_;
  expected_ = Expected::kValue;
  return State::kOpen;
}

size_t ParameterReader::next_candidate(std::string_view text, size_t from) const {
  const std::array<std::string_view, 3> words = {steps_.after_value.front(), steps_.before_key.front(), end_.front()};
  const std::array<char, 3> begins = {words[0].front(), words[1].front(), words[2].front()};
  const std::string_view any(begins.data(), begins.size());
  // Searches for all words in one pass: if it searched for one word after the other, it would read the text to its end
  // whenever a word does not occur.
  for (size_t at = text.find_first_of(any, from); at != text.npos; at = text.find_first_of(any, at + 1)) {
    if (std::ranges::any_of(words, [&](std::string_view word) { return text.substr(at).starts_with(word); })) return at;
  }
  return text.npos;
}

WordMatch ParameterReader::other_key_at(std::string_view text, size_t at) const {
  if (!steps_.after_closing_key.empty()) return WordMatch::kNo;  // in this form values have keys inside
  const WordMatch marker = match_words(text, steps_.before_key, at);
  if (marker != WordMatch::kYes) return marker;
  const size_t end = std::min(text.size(), at + kMaxNameBytes);
  size_t after = at;
  while (after < end && !is_marker_space(text[after]) && text[after] != '<' && text[after] != '>' &&
         text[after] != '"') {
    ++after;
  }
  if (after == text.size()) return WordMatch::kMore;
  if (after == at || !tools_.may_have(tool_, text.substr(at, after - at))) return WordMatch::kNo;
  const WordMatch string = match_words(text, steps_.before_value, after);
  if (string == WordMatch::kYes || steps_.before_other_value == steps_.before_value) return string;
  const WordMatch other = match_other(text, after);
  return other == WordMatch::kNo ? string : other;
}

ParameterReader::Ending ParameterReader::ending_at(std::string_view text, size_t at, bool at_end) const {
  size_t after = at;
  WordMatch marker = match_end_of_value(text, after);
  if (marker == WordMatch::kYes) marker = goes_on(text, after, at_end);
  if (marker == WordMatch::kYes) return {marker, at, after};
  const WordMatch key = other_key_at(text, at);
  if (key == WordMatch::kYes) return {key, at, at};
  after = at;
  WordMatch end = match_words(text, {end_.front()}, after);
  if (end_.front() == steps_.after_value.front()) end = WordMatch::kNo;
  if (end == WordMatch::kYes) end = closes_call(text.substr(after), at_end);
  if (end == WordMatch::kYes) return {end, at, at};
  const bool unsure = marker == WordMatch::kMore || key == WordMatch::kMore || end == WordMatch::kMore;
  return {unsure ? WordMatch::kMore : WordMatch::kNo, at, at};
}

// A word that ends the call may also be a part of the value. It is part of the value if the marker that ends the value
// follows before another call begins.
WordMatch ParameterReader::closes_call(std::string_view after, bool at_end) const {
  constexpr size_t kMaxBytes = 4096;  // maximum length of the text that is searched for this marker
  const bool is_whole = at_end || after.size() >= kMaxBytes;
  after = after.substr(0, kMaxBytes);
  const size_t marker = after.find(steps_.after_value.front());
  bool unsure = !is_whole && marker == after.npos;
  for (const std::string& word : steps_.openers) {
    for (size_t at = after.find(word); at < marker; at = after.find(word, at + 1)) {
      const WordMatch call = call_at(after.substr(at));
      if (call == WordMatch::kYes) return call;
      unsure |= call == WordMatch::kMore && !is_whole;
    }
  }
  if (unsure) return WordMatch::kMore;
  return marker == after.npos ? WordMatch::kYes : WordMatch::kNo;
}

// Returns whether `text` begins with a call of an offered tool. Compares only the text before the tool's name and the
// name; kMore: `text` ends before the name does.
WordMatch ParameterReader::call_at(std::string_view text) const {
  size_t at = 0;
  for (size_t i = first_step_at(steps_, text, 0); i < steps_.steps.size(); ++i) {
    const CallStep& step = steps_.steps[i];
    if (step.kind != CallStep::Kind::kWord) break;
    const WordMatch match = match_words(text, {step.word}, at);
    if (match != WordMatch::kYes && step.n_optional == 0) return match;
  }
  text = text.substr(at);
  while (!text.empty() && is_marker_space(text.front())) text.remove_prefix(1);
  const size_t end = text.find_first_of(" \n\t\r<>[]({\"',");
  if (end == text.npos) return WordMatch::kMore;
  return tools_.has(text.substr(0, end)) ? WordMatch::kYes : WordMatch::kNo;
}

ParameterReader::State ParameterReader::read_value(std::string_view text, bool at_end) {
  for (;;) {
    const size_t found = next_candidate(text, at_);
    if (found == text.npos) {
      const size_t longest =
          std::max({steps_.after_value.front().size(), steps_.before_key.front().size(), end_.front().size()});
      if (text.size() > at_ + longest - 1) at_ = text.size() - (longest - 1);
      return at_end ? State::kBad : State::kOpen;
    }
    at_ = found;
    const Ending ending = ending_at(text, at_, at_end);
    if (ending.match == WordMatch::kMore && !at_end) return State::kOpen;
    // If the answer ends within the marker that ends a value, the value is complete: only the call's end is missing.
    const bool is_cut = ending.match == WordMatch::kMore && text.substr(at_).starts_with(steps_.after_value.front()) &&
                        steps_.after_closing_key.empty();
    if (ending.match != WordMatch::kYes && !is_cut) {
      ++at_;  // the marker's text is a part of the value itself
      continue;
    }
    std::string_view value = text.substr(value_begin_, ending.at - value_begin_);
    // If the marker after the value is missing, spaces at the value's end belong to the next marker.
    if (ending.next == ending.at && !is_cut) value.remove_suffix(trailing_spaces(value).size());
    end_value(value);
    at_ = is_cut ? text.size() : ending.next;
    expected_ = Expected::kKeyMarker;
    return State::kOpen;
  }
}

WordMatch ParameterReader::goes_on(std::string_view text, size_t at, bool at_end) const {
  std::vector<std::string> next = end_;
  next.insert(next.end(), steps_.openers.begin(), steps_.openers.end());
  if (!steps_.section_end.empty()) next.push_back(steps_.section_end.front());
  next.push_back(steps_.before_key.front());
  const WordMatch match = match_any(text, next, at);
  return match == WordMatch::kMore && at_end ? WordMatch::kYes : match;
}

void ParameterReader::end_value(std::string_view value) {
  const std::string_view edge = leading_spaces(steps_.syntax.parameter.after_value);
  if (value.ends_with(edge)) value.remove_suffix(edge.size());
  std::optional<bool> is_string;
  if (steps_.before_other_value != steps_.before_value) is_string = !is_other_;
  json_ += json_.empty() ? "{" : ", ";
  json_ += json_string(key_) + ": ";
  const std::string_view solid = trim_marker_spaces(value);
  if (solid.size() >= kCdataBegin.size() + kCdataEnd.size() && solid.starts_with(kCdataBegin) &&
      solid.ends_with(kCdataEnd)) {
    value = solid.substr(kCdataBegin.size(), solid.size() - kCdataBegin.size() - kCdataEnd.size());
  }
  const AllowedTypes types = tools_.types_of(tool_, key_);
  std::optional<std::string> nested;
  if (!steps_.after_closing_key.empty() && !types.string) nested = tools_.nested(tool_, key_, value, steps_.syntax);
  json_ += nested ? *nested : marked_value_json(value, types, is_string);
}

}  // namespace ibid
