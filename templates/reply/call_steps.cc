#include "templates/reply/call_steps.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ibid {
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
        // The id and the words before it are optional, because models may omit an id that the template writes.
        if (optional_from < out.steps.size() - 1) {
          out.steps[optional_from].n_optional = out.steps.size() - optional_from;
        }
        break;
    }
  }
}

bool is_tag(const std::string& word) { return word.front() == '<' || word.front() == '['; }

// Returns "<tool_call>" for a tag such as "<|tool_call|>": a model writes the tag like this if it does not have the tag
// as one token. Returns an empty text for other words.
std::string without_bars(const std::string& word) {
  constexpr std::string_view kBegin = "<|", kEnd = "|>";
  if (word.size() <= kBegin.size() + kEnd.size() || !word.starts_with(kBegin) || !word.ends_with(kEnd)) return {};
  return "<" + word.substr(kBegin.size(), word.size() - kBegin.size() - kEnd.size()) + ">";
}

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
    // A single character before the name is the quote of an attribute, and not part of an id.
    const bool is_sign = !before.empty() && before.back().size() == 1;
    if (before.empty() || is_tag(before.back()) || is_sign) continue;
    out.id_begin = before.back();
    out.id_middle = parts[i + 1].text;
  }
}

// Models may omit ordinary words between a tag and the name: "<tool_call>call:NAME".
void note_words_before_name(CallSteps& out) {
  const auto name = std::find_if(out.steps.begin(), out.steps.end(),
                                 [](const CallStep& step) { return step.kind == CallStep::Kind::kName; });
  if (name == out.steps.end()) return;
  auto first = name;
  while (first != out.steps.begin() && (first - 1)->kind == CallStep::Kind::kWord && !is_tag((first - 1)->word))
    --first;
  if (first == out.steps.begin() || (first - 1)->kind != CallStep::Kind::kWord) return;
  // If the tag has another end than '>' or ']', the words before the name are inside the tag.
  const char end = (first - 1)->word.back();
  if (end != '>' && end != ']') return;
  for (; first != name; ++first) first->n_optional = 1;
}

void note_type_word(CallSteps& out) {
  const std::vector<std::string>&string = out.before_value, &other = out.before_other_value;
  if (string.size() != other.size()) return;
  size_t n_different = 0;
  for (size_t i = 0; i < other.size(); ++i) {
    if (string[i] == other[i]) continue;
    ++n_different;
    out.type_word = i;
  }
  if (n_different != 1 || is_tag(other[out.type_word])) out.type_word = SIZE_MAX;
}

}  // namespace

CallSteps make_call_steps(const CallSyntax& syntax) {
  CallSteps out;
  out.syntax = syntax;
  add_words(out.steps, syntax.section_begin);
  // Models also write a single call without the brackets of the list of calls.
  for (size_t i = 1; i < out.steps.size(); ++i) {
    if (out.steps[i].word == "[") out.steps[i].n_optional = 1;
  }
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
  out.after_closing_key = solid_marker_words(syntax.parameter.after_closing_key);
  note_ids(out);
  note_words_before_name(out);
  note_type_word(out);
  for (size_t i = 0; i < out.steps.size() && out.steps[i].kind == CallStep::Kind::kWord; ++i) {
    const std::string& word = out.steps[i].word;
    const auto n = std::count_if(out.steps.begin(), out.steps.end(), [&](const CallStep& s) { return s.word == word; });
    if (is_tag(word) && word.size() > 2 && n == 1) out.openers.push_back(word);
    out.steps[i].other_spelling = without_bars(word);
    if (!out.steps[i].other_spelling.empty()) out.other_openers.push_back(out.steps[i].other_spelling);
  }
  return out;
}

std::vector<std::string> call_triggers(const CallSyntax& syntax) {
  const CallSteps steps = make_call_steps(syntax);
  std::vector<std::string> triggers;
  const auto add = [&](std::string word) {
    if (!word.empty() && std::find(triggers.begin(), triggers.end(), word) == triggers.end()) {
      triggers.push_back(std::move(word));
    }
  };
  if (steps.steps.empty()) return triggers;
  const auto word_of = [](const CallStep& step) {
    return step.kind == CallStep::Kind::kEnvelope ? std::string("{") : step.word;
  };
  std::string first = word_of(steps.steps.front());
  // If a call begins with a single character that a tag follows, the character and the tag together are the trigger.
  const bool is_sign = first.size() == 1 && first.find_first_of("{[(") == first.npos;
  if (is_sign && steps.steps.size() > 1 && steps.steps[1].kind == CallStep::Kind::kWord) {
    const std::string joined = first + steps.steps[1].word;
    const std::string text = syntax.section_begin + (syntax.parts.empty() ? std::string() : syntax.parts.front().text);
    if (is_tag(steps.steps[1].word) && text.starts_with(joined)) first = joined;
  }
  add(first);
  if (!syntax.optional_begin.empty() && steps.n_opening == 0 && steps.steps.size() > 1) add(word_of(steps.steps[1]));
  // Models may also omit the words before the first tag of a call. Then this tag begins the call.
  for (const std::string& word : steps.openers) add(word);
  return triggers;
}

size_t first_step_at(const CallSteps& steps, std::string_view text, size_t first) {
  // Also search from step 0, because another section may begin after a call.
  for (const size_t from : {first, size_t{0}}) {
    for (size_t i = from; i < steps.steps.size(); ++i) {
      const CallStep& step = steps.steps[i];
      if (step.kind == CallStep::Kind::kEnvelope && text.starts_with('{')) return i;
      if (step.kind != CallStep::Kind::kWord) break;
      const auto is_there = [text](std::string_view word) {
        return !word.empty() && (text.starts_with(word) || word.starts_with(text));
      };
      if (is_there(step.word) || is_there(step.other_spelling)) return i;
    }
  }
  return first;
}

WordMatch match_words(std::string_view text, const std::vector<std::string>& words, size_t& at) {
  size_t now = at;
  for (const std::string& word : words) {
    while (now < text.size() && is_marker_space(text[now])) ++now;
    const std::string_view there = text.substr(now, word.size());
    if (there != std::string_view(word).substr(0, there.size())) return WordMatch::kNo;
    if (there.size() < word.size()) return WordMatch::kMore;
    now += word.size();
  }
  at = now;
  return WordMatch::kYes;
}

WordMatch match_any(std::string_view text, const std::vector<std::string>& words, size_t at) {
  WordMatch best = WordMatch::kNo;
  for (const std::string& word : words) {
    size_t after = at;
    const WordMatch match = match_words(text, {word}, after);
    if (match == WordMatch::kYes) return match;
    if (match == WordMatch::kMore) best = match;
  }
  return best;
}

}  // namespace ibid
