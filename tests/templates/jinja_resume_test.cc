// ConversationRenderer: the kept text and the newly rendered text together equal the full render, with equal origins of
// all bytes, for any template and any change of the conversation. In plain chats, earlier messages cost nothing.
#include <gtest/gtest.h>

#include <memory>

#include "templates/chat_template.h"
#include "tests/support/paths.h"
#include "tests/templates/template_support.h"

namespace ibid {
namespace {

ChatTemplate compile(const std::string& source) {
  auto compiled = ChatTemplate::compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return std::move(compiled).value();
}

TemplateVariables some_variables(bool with_tools) {
  TemplateVariables variables;
  variables.values = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  if (with_tools) {
    variables.values["tools"] =
        Json::array({{{"type", "function"},
                      {"function",
                       {{"name", "weather"},
                        {"description", "Says the weather"},
                        {"parameters", {{"type", "object"}, {"properties", {{"query", {{"type", "string"}}}}}}}}}}});
  }
  return variables;
}

// A renderer, and the text that its caller would hold. Both follow a script and are compared after every step.
class Conversation {
 public:
  Conversation(const ChatTemplate& chat_template, const TemplateVariables& variables)
      : template_(&chat_template), variables_(variables), renderer_(chat_template, variables) {}

  void step(Random& random) {
    size_t n_unchanged = messages_.size();
    if (random.chance(15) && !messages_.empty()) {  // another text for an old message
      n_unchanged = random.below(messages_.size());
      messages_[n_unchanged]["content"] = "edited " + std::to_string(random.below(100));
    } else if (random.chance(15) && !messages_.empty()) {  // back to an earlier point
      n_unchanged = random.below(messages_.size() + 1);
      messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(n_unchanged), messages_.end());
    }
    for (size_t n = random.below(4); n > 0; --n) messages_.push_back(random_message(random, messages_));
    if (random.chance(10)) n_unchanged = random.below(n_unchanged + 1);  // a smaller value than necessary is allowed
    // A failed call leaves text_ as it was, so n_unchanged counts only messages that are unchanged since then.
    n_unchanged = std::min(n_unchanged, n_vouched_);
    check(n_unchanged, random.chance(60));
  }

  void check(size_t n_unchanged, bool generation_prompt) {
    // A copy that is destroyed before the next call, to detect pointers to it that the renderer keeps.
    const auto transient = std::make_unique<Json>(messages_);
    TemplateVariables variables = variables_;
    variables.values["add_generation_prompt"] = generation_prompt;
    const auto full = template_->render(messages_, variables);
    const auto delta = renderer_.render(*transient, n_unchanged, generation_prompt);
    ASSERT_EQ(full.ok(), delta.ok()) << messages_.dump() << (full.ok() ? delta.status() : full.status()).to_string();
    if (!full.ok()) {
      EXPECT_EQ(full.status().message(), delta.status().message());
      n_vouched_ = n_unchanged;
      return;
    }
    n_vouched_ = messages_.size();
    SpelledText combined{text_.bytes.substr(0, delta->keep_bytes), text_.origins.substr(0, delta->keep_bytes)};
    ASSERT_EQ(combined.bytes.size(), delta->keep_bytes);
    const SpelledText tail = spell(delta->text);
    combined.bytes += tail.bytes;
    combined.origins += tail.origins;
    const SpelledText wanted = spell(*full);
    ASSERT_EQ(wanted.bytes, combined.bytes) << messages_.dump(1);
    ASSERT_EQ(wanted.origins, combined.origins) << wanted.bytes;
    EXPECT_EQ(delta->bytes_rendered, tail.bytes.size());
    text_ = wanted;
    n_resumed_ += delta->resumed ? 1 : 0;
  }

  size_t n_resumed() const { return n_resumed_; }

 private:
  const ChatTemplate* template_;
  TemplateVariables variables_;
  ConversationRenderer renderer_;
  Json messages_ = Json::array();
  SpelledText text_;      // result of the last successful call
  size_t n_vouched_ = 0;  // messages that are unchanged since then
  size_t n_resumed_ = 0;
};

// Returns how many of the renders resumed.
size_t run_script(const ChatTemplate& chat_template, bool with_tools, uint64_t seed, size_t n_steps) {
  Random random(seed);
  std::vector<Conversation> forks;
  forks.emplace_back(chat_template, some_variables(with_tools));
  for (size_t i = 0; i < n_steps && !testing::Test::HasFatalFailure(); ++i) {
    if (random.chance(5) && forks.size() < 4) forks.push_back(forks[random.below(forks.size())]);
    forks[random.below(forks.size())].step(random);
  }
  size_t resumed = 0;
  for (const Conversation& fork : forks) resumed += fork.n_resumed();
  return resumed;
}

TEST(JinjaResume, ResumedRenderOfReferenceTemplatesEqualsTheFullRender) {
  IBID_NEED_SHARED(shared);
  for (const NamedTemplate& entry : reference_templates(shared)) {
    SCOPED_TRACE(entry.name);
    const ChatTemplate chat_template = compile(entry.source);
    for (uint64_t seed = 1; seed <= 4; ++seed) run_script(chat_template, seed % 2 == 0, seed, 40);
    if (HasFatalFailure()) return;
  }
}

struct Tricky {
  const char* name;
  const char* source;
  bool resumes;  // a growing conversation resumes from a checkpoint
};

const Tricky kTricky[] = {
    {"plain", "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}{{ add_generation_prompt }}", true},
    {"last", "{% for m in messages %}{{ m.content }}{% if loop.last %}!{% endif %}{% endfor %}", true},
    {"next item", "{% for m in messages %}{{ m.role }}>{{ loop.nextitem.role if loop.nextitem }};{% endfor %}", true},
    {"next by index",
     "{% for m in messages %}{% set next = messages[loop.index0 + 1] %}{{ m.role }}>{{ next.role if next }};"
     "{% endfor %}",
     true},
    {"previous item", "{% for m in messages %}{{ loop.previtem.role if loop.previtem }}<{{ m.role }};{% endfor %}",
     true},
    {"previous by index", "{% for m in messages %}{{ messages[loop.index0 - 1].role }};{% endfor %}", false},
    {"length", "{% for m in messages %}{{ loop.index }}/{{ loop.length }} {% endfor %}", false},
    {"length filter", "{% for m in messages %}{{ m.content }}{{ messages | length }}{% endfor %}", false},
    {"reverse index", "{% for m in messages %}{{ loop.revindex }}{% endfor %}", false},
    {"last message", "{{ messages[-1].role if messages }}{% for m in messages %}{{ m.content }}{% endfor %}", false},
    {"rest", "{% for m in messages[1:] %}{{ loop.index0 }}{{ m.content }}{% endfor %}", true},
    {"rest in a variable",
     "{% if messages and messages[0].role == 'system' %}{% set messages = messages[1:] %}{% endif %}"
     "{% for m in messages %}{{ loop.first }}{{ m.content }}{% endfor %}",
     true},
    {"all but the last", "{% for m in messages[:-1] %}{{ m.content }}{% endfor %}", false},
    {"first two",
     "{% for m in messages[:2] %}{{ m.role }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}", true},
    {"backwards first",
     "{% set ns = namespace(last=-1) %}{% for m in messages[::-1] %}{% if m.role == 'user' and ns.last < 0 %}"
     "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{{ ns.last }}"
     "{{ m.content }}{% endfor %}",
     false},
    {"counter",
     "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.n = ns.n + 1 %}"
     "{% endif %}{{ ns.n }}{{ m.content }}{% endfor %}{{ ns.n }}",
     true},
    {"message kept",
     "{% set ns = namespace(m=none) %}{% for m in messages %}{{ ns.m.role if ns.m }}{{ ns.m.content }}"
     "{% set ns.m = m %}{% endfor %}",
     true},
    {"part kept",
     "{% set ns = namespace(c=[]) %}{% for m in messages %}{% if m.tool_calls %}{% set ns.c = m.tool_calls %}"
     "{% endif %}{{ ns.c | tojson }}{% endfor %}",
     true},
    {"list grows",
     "{% set ns = namespace(all=[]) %}{% for m in messages %}{% set ns.all = ns.all + [m] %}"
     "{{ ns.all[0].role }}{{ ns.all[-1].content }}{% endfor %}{{ ns.all | length }}",
     true},
    {"text grows",
     "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t ~ m.role %}{% endfor %}{{ ns.t "
     "}}",
     true},
    {"changed", "{% for m in messages %}{{ loop.changed(m.role) }}{{ m.content }}{% endfor %}", false},
    {"cycle", "{% for m in messages %}{{ loop.cycle('a', 'b', 'c') }}{{ m.content }}{% endfor %}", true},
    {"filtered",
     "{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ m.content }}{{ loop.last }}{% endfor "
     "%}",
     true},
    {"filtered with look-ahead",
     "{% for m in messages if m.role == 'user' %}{{ m.content }}{{ loop.nextitem is defined }}"
     "{{ loop.previtem.content if loop.previtem }}{% endfor %}",
     true},
    {"break",
     "{% for m in messages %}{% if loop.index0 == 3 %}{% break %}{% endif %}{{ m.content }}{% endfor %}"
     "{% for m in messages %}{{ m.role }}{% endfor %}",
     true},
    {"continue",
     "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% endfor %}", true},
    {"prompt flag inside",
     "{% for m in messages %}{{ m.content }}{% if add_generation_prompt %}+{% endif %}{% endfor %}", true},
    {"prompt flag before",
     "{% if add_generation_prompt %}+{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}", true},
    {"macro",
     "{% macro show(m, all) %}{{ m.role }}={{ all[0].content }}{% endmacro %}{% for m in messages %}"
     "{{ show(m, messages) }}{% endfor %}",
     true},
    {"macro counts",
     "{% macro n(all) %}{{ all | length }}{% endmacro %}{% for m in messages %}{{ m.role }}{{ n(messages) }}"
     "{% endfor %}",
     false},
    {"macro of an iteration",
     "{% set ns = namespace(f=none) %}{% for m in messages %}{% macro f() %}{{ m.content }}{% endmacro %}"
     "{{ ns.f() if ns.f }}{% set ns.f = f %}{% endfor %}",
     false},
    {"namespace of an iteration",
     "{% set ns = namespace(o=none) %}{% for m in messages %}{{ ns.o.x if ns.o }}"
     "{% set ns.o = namespace(x=m.content) %}{% endfor %}",
     false},
    {"namespace within",
     "{% for m in messages %}{% set ns = namespace(n=0) %}{% for c in m.role %}{% set ns.n = ns.n + 1 %}"
     "{% endfor %}{{ ns.n }}{{ m.content }}{% endfor %}",
     true},
    {"namespace of messages",
     "{% set ns = namespace(all=messages) %}{% for m in ns.all %}{{ m.content }}"
     "{% if loop.index0 == 1 %}{% set ns.all = [] %}{% endif %}{% endfor %}{{ ns.all | length }}",
     true},
    {"generator",
     "{% set g = [1, 2, 3] | map('string') %}{% for m in messages %}{{ g | first }}{{ m.role }}{% endfor %}", false},
    {"under conditions",
     "{% if messages %}a{% if true %}b{% for m in messages %}{{ m.content }}{% endfor %}c{% endif %}d{% "
     "endif %}e",
     true},
    {"in a block", "{% set x %}{% for m in messages %}{{ m.content }}{% endfor %}{% endset %}{{ x }}", false},
    {"twice", "{% for m in messages %}{{ m.role }}{% endfor %}|{% for m in messages %}{{ m.content }}{% endfor %}",
     true},
    {"contains", "{% for m in messages %}{{ m.content }}{{ messages[0] in messages }}{% endfor %}", false},
    {"printed", "{% for m in messages %}{{ m.role }}{% endfor %}{{ messages | tojson }}", true},
    {"all iterations left early",
     "{% for m in messages %}{% if m.role %}{% continue %}{% endif %}{{ m.content }}{% else %}nothing{% endfor %}",
     true},
    {"some iterations left early",
     "{% for m in messages %}{{ m.content }}{% if m.role != 'user' %}{% continue %}{% endif %}{% else %}none"
     "{% endfor %}",
     true},
    {"cycler and joiner",
     "{% set c = cycler('a', 'b', 'c') %}{% set j = joiner('|') %}{% for m in messages %}{{ j() }}{{ c.next() }}"
     "{{ m.content }}{% endfor %}{{ c.current }}",
     true},
    {"else", "{% for m in messages %}{{ m.role }}{% else %}nothing{% endfor %}", true},
    {"variable kept",
     "{% set first = messages[0] if messages else none %}{% set calls = first.tool_calls if first else [] %}"
     "{% for m in messages %}{{ first.content }}{{ calls | tojson if calls }}{{ m.role }}{% endfor %}",
     true},
    {"outer loop kept",
     "{% for m in messages %}{% set outer = loop %}{% for c in 'ab' %}{{ outer.index }}{{ loop.index }}"
     "{{ outer.last }}{% endfor %}{{ m.content }}{% endfor %}",
     true},
    {"raises",
     "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ "
     "raise_exception('alternate') }}"
     "{% endif %}{{ m.content }}{% endfor %}",
     true},
};

TEST(JinjaResume, ResumedRenderOfTrickyTemplatesEqualsTheFullRender) {
  for (const Tricky& tricky : kTricky) {
    SCOPED_TRACE(tricky.name);
    const ChatTemplate chat_template = compile(tricky.source);
    for (uint64_t seed = 1; seed <= 12; ++seed) run_script(chat_template, seed % 3 == 0, seed, 30);
    if (HasFatalFailure()) return;
  }
}

// Only templates that read the end are rendered in full.
TEST(JinjaResume, RenderResumesUnlessTheTemplateReadsTheLastMessages) {
  for (const Tricky& tricky : kTricky) {
    SCOPED_TRACE(tricky.name);
    const ChatTemplate chat_template = compile(tricky.source);
    ConversationRenderer renderer(chat_template, some_variables(false));
    Json messages = Json::array();
    for (size_t i = 0; i < 8; ++i) messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", "x"}});
    ASSERT_TRUE(renderer.render(messages, 0, true).ok());
    messages.push_back({{"role", "user"}, {"content", "y"}});
    const auto delta = renderer.render(messages, 8, true);
    ASSERT_TRUE(delta.ok()) << delta.status().message();
    // A checkpoint before the first iteration does not count.
    EXPECT_EQ(delta->resumed && delta->keep_bytes > 0, tricky.resumes && delta->keep_bytes > 0);
    const auto anew = ConversationRenderer(chat_template, some_variables(false)).render(messages, 0, true);
    ASSERT_TRUE(anew.ok()) << anew.status().message();
    EXPECT_EQ(delta->messages_rendered < anew->messages_rendered, tricky.resumes) << delta->messages_rendered;
  }
}

// Renders a chat of n turns, turn by turn; returns the cost of each turn after the first two.
std::vector<ConversationRenderer::Delta> grow(const std::string& source, size_t n_turns) {
  const ChatTemplate chat_template = compile(source);
  ConversationRenderer renderer(chat_template, some_variables(false));
  Json messages = Json::array({{{"role", "system"}, {"content", "Be brief."}}});
  std::vector<ConversationRenderer::Delta> turns;
  for (size_t turn = 0; turn < n_turns; ++turn) {
    const size_t before = turn == 0 ? 0 : messages.size();
    if (turn > 0) messages.push_back({{"role", "assistant"}, {"content", "Yes."}});
    messages.push_back({{"role", "user"}, {"content", "And now?"}});
    auto delta = renderer.render(messages, before, true);
    EXPECT_TRUE(delta.ok()) << delta.status().message();
    if (delta.ok() && turn >= 2) turns.push_back(std::move(*delta));
  }
  return turns;
}

void expect_flat(const std::string& source) {
  const auto turns = grow(source, 200);
  for (const auto& turn : turns) {
    ASSERT_TRUE(turn.resumed);
    ASSERT_LE(turn.messages_rendered, 3u);  // two are new
    ASSERT_EQ(turn.steps, turns.front().steps);
    ASSERT_EQ(turn.bytes_rendered, turns.front().bytes_rendered);
  }
}

TEST(JinjaResume, SmolLm2TemplateRendersOnlyNewMessages) {
  const auto source = read_text(golden_dir() + "/templates/smollm2.jinja");
  ASSERT_TRUE(source.has_value());
  expect_flat(*source);
}

TEST(JinjaResume, Llama3TemplateRendersOnlyNewMessages) {
  expect_flat(
      "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
      "'<|start_header_id|>' + "
      "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if "
      "loop.index0 == 0 %}"
      "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if "
      "add_generation_prompt %}"
      "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}");
}

TEST(JinjaResume, Qwen25TemplateRendersOnlyNewMessages) {
  IBID_NEED_SHARED(shared);
  for (const NamedTemplate& entry : reference_templates(shared)) {
    if (entry.name == "Qwen-Qwen2.5-7B-Instruct") return expect_flat(entry.source);
  }
  FAIL() << "no template of Qwen2.5 in " << shared;
}

TEST(JinjaResume, FailedRenderChangesNothing) {
  const ChatTemplate chat_template = compile(
      "{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('no') }}{% endif %}{{ m.content "
      "}};{% endfor %}");
  ConversationRenderer renderer(chat_template, {});
  Json messages = Json::array({{{"role", "user"}, {"content", "a"}}, {{"role", "user"}, {"content", "b"}}});
  ASSERT_TRUE(renderer.render(messages, 0, false).ok());
  Json bad = messages;
  bad.push_back({{"role", "user"}, {"content", "bad"}});
  const auto failed = renderer.render(bad, 2, false);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().code(), ErrorCode::kTemplateRaise);
  EXPECT_EQ(failed.status().message(), "no");
  messages.push_back({{"role", "user"}, {"content", "c"}});
  const auto delta = renderer.render(messages, 2, false);
  ASSERT_TRUE(delta.ok());
  EXPECT_EQ(delta->keep_bytes, 4u);
  EXPECT_EQ(delta->text.bytes(), "c;");
}

TEST(JinjaResume, RewoundConversationResumesAtAnEarlierCheckpoint) {
  const ChatTemplate chat_template = compile("{% for m in messages %}{{ m.content }};{% endfor %}");
  ConversationRenderer renderer(chat_template, {});
  Json messages = Json::array();
  for (const char* text : {"a", "b", "c", "d"}) messages.push_back({{"role", "user"}, {"content", text}});
  ASSERT_TRUE(renderer.render(messages, 0, false).ok());
  messages.erase(messages.begin() + 2, messages.end());
  messages.push_back({{"role", "user"}, {"content", "x"}});
  const auto delta = renderer.render(messages, 2, false);
  ASSERT_TRUE(delta.ok());
  EXPECT_EQ(delta->keep_bytes, 4u);
  EXPECT_EQ(delta->text.bytes(), "x;");
  EXPECT_EQ(delta->messages_rendered, 1u);
  // Messages that the shorter conversation dropped are forgotten, even if the caller passes a larger n_unchanged.
  const auto again = renderer.render(messages, 99, false);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->keep_bytes, 6u);
  EXPECT_TRUE(again->text.empty());
}

}  // namespace
}  // namespace ibid
