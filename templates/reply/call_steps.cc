#include "templates/reply/call_steps.h"

#include <algorithm>

#include "templates/reply/marker_words.h"

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
        // Models leave out ids that the template writes.
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
  // Models leave out what opens a section, too. Then a call's own tag says that it begins.
  if (steps.n_opening > 0 && steps.n_opening < steps.steps.size()) {
    const CallStep& begin = steps.steps[steps.n_opening];
    if (begin.kind == CallStep::Kind::kWord && is_tag(begin.word) && begin.word.size() > 2) add(begin);
  }
  return triggers;
}

}  // namespace ibid
