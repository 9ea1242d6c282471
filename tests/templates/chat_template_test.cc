// ChatTemplate: sources of templates, their variables, continued messages, tool arguments. The engine is tested in
// jinja_*_test.cc.
#include "templates/chat_template.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/load_model.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/templates/template_support.h"
#include "tests/tokenizer/memory_model_file.h"

namespace ibid {
namespace {

const Json kHello = Json::array({{{"role", "user"}, {"content", "Hello"}}});

Result<ChatTemplate> load(const std::map<std::string, std::string, std::less<>>& companions) {
  return load_chat_template(MemoryModelFile(companions));
}

ChatTemplate compile(const std::string& source) {
  auto compiled = ChatTemplate::compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return std::move(compiled).value();
}

std::string render(const ChatTemplate& chat_template, const Json& messages, const Json& values = Json::object()) {
  TemplateVariables variables;
  variables.values = values;
  const auto text = chat_template.render(messages, variables);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? text->bytes() : "";
}

TEST(ChatTemplateTest, TemplateSeesAbsentToolsAndDocumentsAsNone) {
  const ChatTemplate chat_template =
      compile("{{ tools is none }}{{ documents is defined }}{{ add_generation_prompt }}{{ x is defined }}");
  EXPECT_EQ(render(chat_template, kHello), "TrueTrueFalseFalse");
  EXPECT_EQ(render(chat_template, kHello, {{"tools", Json::array()}, {"add_generation_prompt", true}, {"x", nullptr}}),
            "FalseTrueTrueTrue");
}

TEST(ChatTemplateTest, VariablesForTheDateHaveTheDateUnlessTheyAreSet) {
  const ChatTemplate chat_template = compile(
      "{% if not date_string is defined %}{% set date_string = 'none' %}{% endif %}{{ date_string }}, {{ datetime }}");
  TemplateVariables variables;
  variables.now = "2026-11-07T23:59:59";
  EXPECT_EQ(chat_template.render(kHello, variables)->bytes(), "07 Nov 2026, Nov 07 2026");
  EXPECT_EQ(ConversationRenderer(chat_template, variables).render(kHello, 0, false)->text.bytes(),
            "07 Nov 2026, Nov 07 2026");
  EXPECT_EQ(render(chat_template, kHello, {{"date_string", "a"}, {"datetime", "b"}}), "a, b");
  EXPECT_EQ(*chat_template.render_plain({{"datetime", "b"}}, variables.now), "none, b") << "a render without messages";
  variables.now = "today";
  EXPECT_EQ(chat_template.render(kHello, variables).status().code(), ErrorCode::kTemplateError);
}

TEST(ChatTemplateTest, VariableForFunctionsHasTheTextOfTheTools) {
  const ChatTemplate chat_template = compile("{{ '[' + functions + ']' }}");
  EXPECT_EQ(render(chat_template, kHello), "[]");
  EXPECT_EQ(render(chat_template, kHello, {{"tools", Json::array()}}), "[]");
  EXPECT_EQ(render(chat_template, kHello, {{"tools", Json::parse(R"([{"name": "f"}])")}}), R"([[{"name":"f"}]])");
  EXPECT_EQ(render(chat_template, kHello, {{"functions", "mine"}}), "[mine]");
}

TEST(ChatTemplateTest, MessagesMustBeAnArray) {
  const ChatTemplate chat_template = compile("x");
  EXPECT_EQ(chat_template.render(Json::object(), {}).status().code(), ErrorCode::kInvalidArgument);
  TemplateVariables variables;
  variables.values = Json::array();
  EXPECT_EQ(chat_template.render(kHello, variables).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(chat_template.render_plain(Json(1), "").status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ConversationRenderer(chat_template, {}).render(Json(), 0, false).status().code(),
            ErrorCode::kInvalidArgument);
}

TEST(ChatTemplateTest, MessagesOfAnyShapeAreRendered) {
  const ChatTemplate chat_template = compile("{% for m in messages %}{{ m }};{% endfor %}");
  EXPECT_EQ(render(chat_template, Json::array({1, "a", nullptr, Json::array({2})})), "1;a;None;[2];");
  ConversationRenderer renderer(chat_template, {});
  ASSERT_TRUE(renderer.render(Json::array({1, "a"}), 0, false).ok());
  const auto delta = renderer.render(Json::array({1, "a", 2}), 2, false);
  ASSERT_TRUE(delta.ok());
  EXPECT_EQ(delta->text.bytes(), "1;a;2;");
}

TEST(ChatTemplateTest, LoadsTheTemplateFileBeforeTheConfig) {
  const std::string config = R"({"chat_template": "config {{ bos_token }}{{ eos_token }}", "bos_token": "<s>",
      "eos_token": {"content": "</s>", "lstrip": false}, "add_bos_token": true, "pad_token": null})";
  const auto both = load({{"tokenizer_config.json", config}, {"chat_template.jinja", "file {{ bos_token }}"}});
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(render(*both, kHello), "file <s>");
  EXPECT_EQ(both->source(), "file {{ bos_token }}");
  const auto only_config = load({{"tokenizer_config.json", config}});
  ASSERT_TRUE(only_config.ok());
  EXPECT_EQ(render(*only_config, kHello), "config <s></s>");
  EXPECT_EQ(render(*only_config, kHello, {{"bos_token", "B"}}), "config B</s>");
  EXPECT_EQ(only_config->default_variables(), Json({{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
}

TEST(ChatTemplateTest, LoadsTheDefaultOfSeveralTemplates) {
  const auto chat_template =
      load({{"tokenizer_config.json",
             R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})"}});
  ASSERT_TRUE(chat_template.ok());
  EXPECT_EQ(chat_template->source(), "d");
}

// The template "tool_use" of each place where a model's files may have it.
TEST(ChatTemplateTest, RequestWithToolsUsesTheToolTemplate) {
  const std::map<std::string, std::string, std::less<>> kPlaces[] = {
      {{"tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]})"}},
      {{"tokenizer_config.json", R"({"chat_template": {"tool_use": "t", "default": "d"}})"}},
      {{"chat_template.jinja", "d"}, {"additional_chat_templates/tool_use.jinja", "t"}},
      {{"tokenizer_config.json", R"({"chat_template": "d"})"}, {"additional_chat_templates/tool_use.jinja", "t"}},
      {{"chat_template.json", R"({"chat_template": {"default": "d", "tool_use": "t"}})"}},
  };
  const Json tools = Json::array({{{"type", "function"}}});
  for (const auto& companions : kPlaces) {
    const auto chat_template = load(companions);
    ASSERT_TRUE(chat_template.ok()) << chat_template.status().message();
    EXPECT_EQ(render(*chat_template, kHello), "d");
    EXPECT_EQ(render(*chat_template, kHello, {{"tools", Json::array()}}), "d");
    EXPECT_EQ(render(*chat_template, kHello, {{"tools", nullptr}}), "d");
    EXPECT_EQ(render(*chat_template, kHello, {{"tools", tools}}), "t");
    EXPECT_EQ(chat_template->source() + chat_template->source_for_tools(), "dt");
    TemplateVariables variables;
    variables.values["tools"] = tools;
    EXPECT_EQ(ConversationRenderer(*chat_template, variables).render(kHello, 0, false)->text.bytes(), "t");
    EXPECT_EQ(ConversationRenderer(*chat_template, {}).render(kHello, 0, false)->text.bytes(), "d");
  }
}

TEST(ChatTemplateTest, OnlyTemplateIsUsedEvenIfItsNameIsNotDefault) {
  const auto one = load({{"tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "r"}]})"}});
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(one->source(), "r");
  const auto tool_use = load(
      {{"tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"}, 7, {"name": 3}]})"}});
  ASSERT_TRUE(tool_use.ok()) << tool_use.status().message();
  EXPECT_EQ(render(*tool_use, kHello), "t");
  for (const char* config : {R"({"chat_template": []})", R"({"chat_template": 7})", R"({"chat_template": [{}]})"}) {
    EXPECT_EQ(load({{"tokenizer_config.json", config}}).status().code(), ErrorCode::kNotFound) << config;
  }
}

TEST(ChatTemplateTest, InvalidToolTemplateIsAWarning) {
  std::vector<std::string> warnings;
  const auto chat_template = load_chat_template(
      MemoryModelFile({{"chat_template.jinja", "d"}, {"additional_chat_templates/tool_use.jinja", "{% if"}}), {},
      &warnings);
  ASSERT_TRUE(chat_template.ok()) << chat_template.status().message();
  EXPECT_EQ(render(*chat_template, kHello, {{"tools", Json::array({7})}}), "d");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("'tool_use' is not used"), std::string::npos) << warnings[0];
}

TEST(ChatTemplateTest, SpecialTokensAreReadFromEveryFile) {
  const auto chat_template =
      load({{"tokenizer_config.json", R"({"chat_template": "{{ bos_token }}|{{ eos_token }}",
                                                                 "eos_token": "<E>", "bos_token": null})"},
            {"special_tokens_map.json", R"({"bos_token": {"content": "<M>"}, "eos_token": "<N>"})"}});
  ASSERT_TRUE(chat_template.ok()) << chat_template.status().message();
  EXPECT_EQ(render(*chat_template, kHello), "<M>|<E>");
}

TEST(ChatTemplateTest, ByteOrderMarkIsRemovedAndLineEndsAreNormalised) {
  for (const char* source : {"\xEF\xBB\xBF"
                             "a\r\n{{ 'b' }}\rc",
                             "a\n{{ 'b' }}\nc"}) {
    const auto chat_template = load({{"chat_template.jinja", source}});
    ASSERT_TRUE(chat_template.ok()) << chat_template.status().message();
    EXPECT_EQ(render(*chat_template, kHello), "a\nb\nc");
  }
}

// Any special token that the template writes after an answer ends turns.
TEST(ChatTemplateTest, EndOfTurnTokensAreReadFromTheTemplate) {
  const auto ends = [](const std::string& source) {
    FakeTokenizer tokenizer({"<|fin|>"});
    const size_t n = tokenizer.end_of_turn().size();
    add_template_end(compile(source), tokenizer);
    return tokenizer.end_of_turn().size() - n;
  };
  const std::string loop = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}";
  EXPECT_EQ(ends(loop + "\n<|fin|>\n{% endfor %}"), 1u);
  EXPECT_EQ(ends(loop + "<|fin|><|im_end|>{% endfor %}"), 1u);
  EXPECT_EQ(ends(loop + "<|im_end|>{% endfor %}"), 0u) << "it is one already";
  EXPECT_EQ(ends(loop + "the end{% endfor %}"), 0u);
  EXPECT_EQ(ends(loop + "{% endfor %}"), 0u);
  EXPECT_EQ(ends("{{ raise_exception('no') }}"), 0u);
  EXPECT_EQ(ends("no answer"), 0u);
}

TEST(ChatTemplateTest, ErrorsInAModelsTemplateAreReported) {
  EXPECT_EQ(load({}).status().code(), ErrorCode::kNotFound);
  const auto broken = load({{"chat_template.jinja", "{% if"}});
  EXPECT_EQ(broken.status().code(), ErrorCode::kTemplateSyntax);
  EXPECT_TRUE(broken.status().message().starts_with("model: template line 1")) << broken.status().message();
  EXPECT_FALSE(load({{"tokenizer_config.json", "{"}}).ok());
}

// The vocabulary and template of a GGUF, as far as load() reads them.
class GgufModelFile : public MemoryModelFile {
 public:
  GgufModelFile() : MemoryModelFile(std::map<std::string, std::string, std::less<>>()) {}
  Container container() const override { return Container::kGguf; }
  Result<std::optional<std::string_view>> get_string(std::string_view key) const override {
    if (key == "tokenizer.chat_template")
      return std::optional<std::string_view>("{{ bos_token }}{{ eos_token }}{{ pad_token }}");
    return std::optional<std::string_view>();
  }
  Result<std::optional<int64_t>> get_int(std::string_view key) const override {
    if (key == "tokenizer.ggml.bos_token_id") return std::optional<int64_t>(1);
    if (key == "tokenizer.ggml.eos_token_id") return std::optional<int64_t>(99);  // out of range
    return std::optional<int64_t>();
  }
  Result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view) const override {
    return std::optional<std::vector<std::string_view>>({"<unk>", "<|begin|>"});
  }
};

TEST(ChatTemplateTest, LoadsTheTemplateFromGguf) {
  const auto chat_template = load_chat_template(GgufModelFile());
  ASSERT_TRUE(chat_template.ok()) << chat_template.status().message();
  EXPECT_EQ(chat_template->default_variables(), Json({{"bos_token", "<|begin|>"}}));
  TemplateVariables variables;
  const auto text = chat_template->render(kHello, variables);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(spell(*text), (SpelledText{"<|begin|>", "ttttttttt"}));
}

TEST(ChatTemplateTest, ContinuesTheFinalMessage) {
  const ChatTemplate plain = compile("{% for m in messages %}<{{ m.content }}>{% endfor %}");
  const ChatTemplate trims = compile("{% for m in messages %}<{{ m.content | trim }}>{% endfor %}");
  const ChatTemplate drops = compile("{% for m in messages %}<{{ m.role }}>{% endfor %}");
  const Json messages =
      Json::array({{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", " b "}}});
  EXPECT_EQ(plain.render_continuing(messages, {}).value(), "<a>< b ");
  EXPECT_EQ(trims.render_continuing(messages, {}).value(), "<a><b");
  EXPECT_EQ(drops.render_continuing(messages, {}).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(plain.render_continuing(Json::array(), {}).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(plain.render_continuing(Json::array({{{"role", "assistant"}}}), {}).status().code(),
            ErrorCode::kInvalidArgument);
  TemplateVariables both;
  both.values["add_generation_prompt"] = true;
  EXPECT_EQ(plain.render_continuing(messages, both).status().code(), ErrorCode::kInvalidArgument);
}

TEST(ChatTemplateTest, ParsesToolArgumentsInTheirOrder) {
  const Json message = {
      {"role", "assistant"},
      {"tool_calls", Json::array({{{"function", {{"name", "f"}, {"arguments", R"({"z": 1, "a": [2]})"}}}},
                                  {{"function", {{"name", "g"}, {"arguments", "not json"}}}},
                                  {{"name", "h"}, {"arguments", R"({"x": null})"}}})}};
  const Json parsed = with_parsed_tool_arguments(message);
  EXPECT_EQ(parsed["tool_calls"][0]["function"]["arguments"].dump(), R"({"z":1,"a":[2]})");
  EXPECT_EQ(parsed["tool_calls"][1]["function"]["arguments"], "not json");
  EXPECT_EQ(parsed["tool_calls"][2]["arguments"].dump(), R"({"x":null})");
  EXPECT_EQ(with_parsed_tool_arguments(kHello[0]), kHello[0]);
  EXPECT_EQ(with_parsed_tool_arguments(Json(3)), Json(3));
}

}  // namespace
}  // namespace ibid
