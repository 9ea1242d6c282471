#include "templates/reply/call_markers.h"

#include <algorithm>
#include <string>

namespace ibid {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

WordMatch match_marker(std::string_view text, std::string_view marker) {
  if (text.starts_with(marker)) return WordMatch::kYes;
  return marker.starts_with(text) ? WordMatch::kMore : WordMatch::kNo;
}

WordMatch CallMarkers::call(std::string_view text, bool is_first, size_t& length) const {
  WordMatch best = WordMatch::kNo;
  for (const std::string& trigger : steps_.syntax.triggers) {
    if ((is_plain_trigger(trigger) && !is_first) || trigger.empty() || trigger.front() != text.front()) continue;
    const WordMatch match = match_marker(text, trigger);
    if (match == WordMatch::kYes) return length = trigger.size(), match;
    if (match == WordMatch::kMore) best = match;
  }
  for (const std::string& opener : steps_.other_openers) {
    const WordMatch match = match_marker(text, opener);
    if (match == WordMatch::kYes) return length = opener.size(), match;
    if (match == WordMatch::kMore) best = match;
  }
  // An answer may begin with a Python list of calls, even without the words that the template writes before the list.
  const bool is_list = steps_.syntax.arguments == ArgumentsForm::kKeywords && steps_.n_opening > 0 &&
                       steps_.steps[steps_.n_opening - 1].word == "[";
  if (is_first && is_list && text.front() == '[') return length = 1, WordMatch::kYes;
  return best;
}

WordMatch CallMarkers::separator(std::string_view text, size_t& length) const {
  size_t at = 0;
  const WordMatch match = match_words(text, steps_.separator, at);
  if (match == WordMatch::kMore) return match;
  const auto skip_spaces = [&] {
    while (at < text.size() && is_marker_space(text[at])) ++at;
  };
  skip_spaces();
  if (match == WordMatch::kNo || steps_.separator.empty()) {
    if (at < text.size() && (text[at] == ',' || text[at] == ';')) ++at;
    skip_spaces();
  }
  length = at;
  return WordMatch::kYes;
}

WordMatch CallMarkers::next_call(std::string_view text, size_t& length) const {
  if (text.empty()) return WordMatch::kMore;
  WordMatch best = WordMatch::kNo;
  for (size_t i = steps_.n_opening; i < steps_.steps.size(); ++i) {
    const CallStep& begin = steps_.steps[i];
    const std::string_view word = begin.kind == CallStep::Kind::kEnvelope ? std::string_view("{") : begin.word;
    // No word comes first, so the call would begin with the tool's name.
    if (word.empty() && !is_name_character(text.front())) break;
    const WordMatch match = match_marker(text, word);
    if (match == WordMatch::kYes) return length = std::max<size_t>(word.size(), 1), match;
    if (match == WordMatch::kMore) best = match;
    if (begin.kind != CallStep::Kind::kWord || begin.n_optional == 0) break;
  }
  const WordMatch opener = call(text, false, length);
  return opener == WordMatch::kNo ? best : opener;
}

WordMatch CallMarkers::end_of_call(std::string_view text, size_t& length) const {
  const CallStep& last = steps_.steps.back();
  const bool is_tag = last.kind == CallStep::Kind::kWord && last.word.size() > 2 && last.word.front() == '<';
  if (!is_tag || trim_marker_spaces(text).empty()) return WordMatch::kNo;
  size_t at = 0;
  const WordMatch match = match_words(text, {last.word}, at);
  if (match == WordMatch::kYes) length = at;
  return match;
}

WordMatch CallMarkers::section_end(std::string_view text, size_t& length) const {
  size_t at = 0;
  bool unsure = false;
  for (const std::string& word : steps_.section_end) {
    const WordMatch match = match_words(text, {word}, at);
    if (match == WordMatch::kYes) length = at;
    unsure |= match == WordMatch::kMore;
  }
  if (unsure) return WordMatch::kMore;
  return length > 0 ? WordMatch::kYes : WordMatch::kNo;
}

}  // namespace ibid
