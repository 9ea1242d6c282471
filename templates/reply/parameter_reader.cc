#include "templates/reply/parameter_reader.h"

#include <optional>
#include <utility>

#include "templates/reply/loose_values.h"
#include "templates/reply/marker_words.h"

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
    // Nothing but what closes the call is missing.
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

// The line break that the template writes behind the marker is the marker's; whatever else stands there is the value's.
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
      at_ = found + 1;  // the value itself has the marker's text
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
