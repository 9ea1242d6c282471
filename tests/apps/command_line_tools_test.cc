#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/support/paths.h"
#include "tests/support/scripted_model.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST_F(CommandLine, InspectFirstReportsWhetherTheModelRuns) {
  const std::string path = tiny_model();
  const Outcome good = run("inspect " + path);
  EXPECT_EQ(good.status, 0);
  EXPECT_THAT(good.out, StartsWith("runs: yes\nchats: no, "));
  const std::string whole = read_whole_file(path);
  const std::string cut = dir_.write("cut.gguf", whole.substr(0, whole.size() - 100));
  GgufWriter writer;
  writer.add_string("general.architecture", "perceiver");
  const std::string other = dir_.file("perceiver.gguf");
  ASSERT_TRUE(writer.write(other).ok());
  for (const std::string& bad : {cut, other}) {
    const Outcome outcome = run("inspect " + bad);
    EXPECT_EQ(outcome.status, 1) << bad;
    EXPECT_THAT(outcome.out, StartsWith("runs: no, ")) << outcome.err;
    const Outcome json = run("inspect --json " + bad);
    EXPECT_EQ(json.status, 1) << bad;
    const Result<Json> parsed = parse_json(json.out, "inspect");
    ASSERT_TRUE(parsed.ok()) << json.out;
    EXPECT_EQ((*parsed)["runs"], false);
    EXPECT_FALSE((*parsed)["reason"].get<std::string>().empty());
  }
  EXPECT_THAT(run("inspect " + other).out, HasSubstr("'perceiver' is not supported"));
}

// Every command that runs a model reports the weight, and so does inspect, except with --quick.
TEST_F(CommandLine, NonFiniteWeightIsReportedByEveryCommand) {
  const std::string path = dir_.file("nan.gguf");
  write_scripted_model(path, {{"", "one"}}, 512);
  std::string bytes = read_whole_file(path);
  const float bad = std::nanf("");
  std::memcpy(&bytes[bytes.size() - sizeof bad], &bad, sizeof bad);
  dir_.write("nan.gguf", bytes);
  const char* what = "tensor blk.0.ffn_down.weight holds a value that is not finite at [";
  const std::string ids = dir_.write("ids.json", R"({"sequences": [{"ids": [1, 2]}]})");
  const std::string text = dir_.write("text.txt", "ab");
  for (const std::string& command :
       {"ask " + path + " a", "chat " + path, "serve --port 0 " + path, "bench " + path,
        "perplexity " + path + " " + text, "logits " + path + " --ids " + ids + " --out " + dir_.file("out"),
        "convert " + path + " " + dir_.file("c.gguf")}) {
    const Outcome outcome = run(command, "a\n");
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.err, HasSubstr(what)) << command;
    EXPECT_EQ(outcome.out, "") << command;
  }
  const Outcome inspected = run("inspect " + path);
  EXPECT_EQ(inspected.status, 1);
  EXPECT_THAT(inspected.out, StartsWith("runs: no, " + path + ": " + what)) << inspected.err;
  const Result<Json> json = parse_json(run("inspect --json " + path).out, "inspect");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["runs"], false);
  EXPECT_THAT((*json)["reason"].get<std::string>(), HasSubstr(what));
  EXPECT_THAT(run("inspect --quick " + path).out, StartsWith("runs: yes"));
}

TEST_F(RealModelCommandLine, TokenizeRejectsWrongTypesAndUnknownKeys) {
  IBID_NEED_REAL_MODEL(model);
  const std::pair<const char*, const char*> cases[] = {
      {R"({"text":"a","add_special":"yes"})", "expected true or false for \"add_special\", got \"yes\""},
      {R"({"text":"a","parse_special":1})", "expected true or false for \"parse_special\", got 1"},
      {R"({"text":"a","add_specials":true})", "unknown key \"add_specials\""},
      {R"({"text":1})", "expected a string \"text\""}};
  for (const auto& [line, error] : cases) {
    const Outcome outcome = run("tokenize " + model, std::string(line) + "\n");
    EXPECT_EQ(outcome.status, 1) << line;
    EXPECT_THAT(outcome.err, HasSubstr(error)) << line;
  }
  EXPECT_EQ(run("tokenize " + model, "{\"text\":\"a\",\"add_special\":false}\n").status, 0);
}

TEST_F(CommandLine, RenderNamesAMissingOrUnneededModel) {
  EXPECT_THAT(run("render", "{\"messages\":[]}\n").err, HasSubstr("need MODEL or --template"));
  const std::string path = dir_.write("t.jinja", "x");
  EXPECT_THAT(run("render --template " + path, "{\"template\":\"{{ 1/0 }}\"}\n").err, HasSubstr("needs no MODEL"));
}

TEST_F(CommandLine, ParseCommandSplitsAnAnswerIntoReasoningContentAndCalls) {
  const std::string path =
      dir_.write("t.jinja",
                 "{% for m in messages %}<|{{ m.role }}|>{% for c in m.tool_calls %}<call>{{ c.function.name }}\n{{ "
                 "c.function.arguments | tojson }}</call>{% endfor %}{{ m.content }}<|end|>{% endfor %}{% if "
                 "add_generation_prompt %}<|assistant|>{{ '<think>' if thinks }}{% endif %}");
  const std::string command = "parse --jsonl --template " + path;
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  const std::string call = R"("text":"Hm.</think>See.<call>f\n{\"a\": 1}</call>")";
  EXPECT_EQ(
      run(command, "{\"thinks\":true," + call + "," + tools + "}\n").out,
      R"({"content":"See.","reasoning":"Hm.","tool_calls":[{"name":"f","arguments":{"a":1}}],"form":"derived from )"
      "the template\"}\n");
  for (const std::string& without : {std::string("\"tools\":[]"), tools + ",\"tool_choice\":\"none\""}) {
    EXPECT_THAT(run(command, "{" + call + "," + without + "}\n").out,
                HasSubstr(R"("content":"Hm.</think>See.<call>f\n{\"a\": 1}</call>","reasoning":"","tool_calls":[])"));
  }
  // A bad line costs only itself.
  const Outcome bad = run(command, "{\"text\":1}\n{\"text\":\"x\",\"tools\":{}}\n{\"text\":\"x\"}\n");
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.out, HasSubstr("{\"error\":\"expected a string \\\"text\\\"\"}\n"));
  EXPECT_THAT(bad.out, HasSubstr("expected an array for"));
  EXPECT_THAT(bad.out, HasSubstr("{\"content\":\"x\""));
  EXPECT_THAT(run("parse", "{}\n").err, HasSubstr("--template FILE"));
}

TEST_F(CommandLine, InspectEscapesUntrustedText) {
  GgufWriter writer = tiny_model_writer({});
  writer.add_string("general.name", "two\nlines\x1b[2J");
  const std::string path = dir_.file("named.gguf");
  ASSERT_TRUE(writer.write(path).ok());
  EXPECT_THAT(run("inspect " + path).out, HasSubstr("STRING     two\\nlines[2J\n"));
  std::filesystem::create_directory(dir_.file("nothing"));
  const Outcome nothing = run("inspect " + dir_.file("nothing"));
  EXPECT_EQ(nothing.status, 1);
  EXPECT_THAT(nothing.err, HasSubstr("holds no config.json"));
}

TEST_F(CommandLine, RenderReadsItsTemplateFromARegularFileOnly) {
  const std::string path = dir_.write("t.jinja", "{{ messages[0].content }}!");
  EXPECT_EQ(run("render --template " + path, "{\"messages\": [{\"content\": \"Hi\"}]}\n").out, "{\"text\":\"Hi!\"}\n");
  EXPECT_EQ(run("render --template /dev/zero").status, 1);
  EXPECT_EQ(run("render --template /no/such.jinja").status, 1);
}

TEST_F(CommandLine, InspectListsMetadataTensorsAndMemory) {
  const std::string model = tiny_model();
  const Outcome text = run("inspect --tensors " + model);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("llama.block_count"));
  EXPECT_THAT(text.out, HasSubstr("blk.2.ffn_down.weight"));
  EXPECT_THAT(text.out, HasSubstr("keys and values"));
  const Outcome json = run("inspect --json " + model);
  const Result<Json> parsed = parse_json(json.out, "inspect");
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  EXPECT_EQ((*parsed)["metadata"]["general.architecture"], "llama");
  EXPECT_EQ((*parsed)["metadata"]["llama.block_count"], 3);
  EXPECT_TRUE((*parsed)["metadata"]["llama.attention.layer_norm_rms_epsilon"].is_number_float());
  EXPECT_TRUE((*parsed)["tensors"][0]["shape"][0].is_number_integer());
  EXPECT_EQ((*parsed)["runs"], true);
  EXPECT_GT((*parsed)["memory"]["weights_bytes"], 0);
}

TEST_F(CommandLine, LogitsAreEqualForAnyChunksAndThreads) {
  const std::string model = tiny_model();
  Json ids = {
      {"sequences",
       {{{"ids", random_tokens(90, 120, 1)}}, {{"ids", random_tokens(30, 120, 2)}, {"positions", {0, 29, 7}}}}}};
  const std::string path = dir_.write("ids.json", ids.dump());
  const auto output = [&](const std::string& options) {
    const Outcome outcome = run("logits " + model + " --ids " + path + " --out " + dir_.file("out.st") + " " + options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return read_whole_file(dir_.file("out.st"));
  };
  const std::string whole = output("");
  EXPECT_GT(whole.size(), (90 + 3) * 120 * sizeof(float));
  EXPECT_EQ(output("--chunks 1,7,64"), whole);
  EXPECT_EQ(output("--chunks 1 --threads 1"), whole);
  EXPECT_EQ(output("--threads 3"), whole);
  EXPECT_NE(output("--kv f16"), whole);

  run("logits " + model + " --ids " + path + " --out " + dir_.file("out.st"));
  const Outcome compared = run("logits " + model + " --ids " + path + " --compare " + dir_.file("out.st"));
  const Result<Json> result = parse_json(compared.out, "compare");
  ASSERT_TRUE(result.ok()) << compared.out << compared.err;
  EXPECT_EQ((*result)["max_dlogit"], 0.0);
  EXPECT_EQ((*result)["top1_agreement"], 1.0);
  EXPECT_EQ((*result)["positions"], 93);
}

TEST_F(CommandLine, LogitsRejectsInvalidTokenLists) {
  const std::string model = tiny_model();
  for (const char* text : {"{}", "[1,2]", R"({"sequences": [{"ids": ["a"]}]})", R"({"sequences": [{"ids": [120]}]})",
                           R"({"sequences": [{"ids": [1], "positions": [1]}]})", "not json"}) {
    const Outcome outcome = run("logits " + model + " --ids " + dir_.write("ids.json", text));
    EXPECT_EQ(outcome.status, 1) << text;
    EXPECT_THAT(outcome.err, StartsWith("ibid: ")) << text;
  }
}

TEST_F(CommandLine, RenderJsonlRendersOneTemplatePerLine) {
  const Outcome outcome = run("render --jsonl",
                              "{\"template\": \"{{ a }} and {{ b }}\", \"variables\": {\"a\": 1, \"b\": \"x\"}}\n"
                              "\n"
                              "{\"template\": \"{{ raise_exception('no') }}\", \"variables\": {}}\n");
  EXPECT_EQ(outcome.status, 1) << "one line had an error";
  EXPECT_EQ(outcome.out, "{\"text\":\"1 and x\"}\n{\"error\":\"no\"}\n");
  const Outcome bad = run("render --jsonl", "{\"template\": \n");
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.err, HasSubstr("line 1"));
}

TEST_F(CommandLine, AcceptCommandTestsTextsAgainstTheSchemaOfEachLine) {
  const Outcome outcome =
      run("accept --jsonl", R"({"id":"a","schema":{"type":"integer","javaType":"x"},"texts":["12","1x","-"]})"
                            "\n"
                            R"({"id":2,"schema":{"properties":{"a":{"not":{"multipleOf":2}}}},"texts":["{}"]})"
                            "\n");
  EXPECT_EQ(outcome.status, 1) << "one line had an error";
  std::istringstream lines(outcome.out);
  std::string first, second;
  std::getline(lines, first);
  std::getline(lines, second);
  const Result<Json> read = parse_json(first, "first"), failed = parse_json(second, "second");
  ASSERT_TRUE(read.ok() && failed.ok()) << outcome.out << outcome.err;
  const Json &answer = *read, &error = *failed;
  EXPECT_EQ(answer["accepted"], Json({true, false, false})) << first;
  EXPECT_EQ(answer["at"], Json({nullptr, 1, 1}));
  EXPECT_EQ(answer["complete"], Json({true, true, false}));
  EXPECT_EQ(answer["ignored"], Json({"#/javaType"}));
  EXPECT_EQ(error["id"], 2) << second;
  EXPECT_EQ(error["error"]["keyword"], "multipleOf");
  EXPECT_EQ(error["error"]["path"], "#/properties/a/not/multipleOf");
  const Outcome pattern = run("accept --jsonl --regex [0-9]+", R"({"text":"2026"})"
                                                               "\n");
  EXPECT_EQ(pattern.status, 0) << pattern.err;
  EXPECT_THAT(pattern.out, StartsWith(R"({"accepted":[true],"at":[null],"complete":[true],)"));
  EXPECT_THAT(run("accept --jsonl", "{\"text\": \"a\"}\n").err, HasSubstr("schema"));
}

TEST_F(RealModelCommandLine, PerplexityOfATextIsPrinted) {
  IBID_NEED_REAL_MODEL(model);
  const Outcome outcome = run("perplexity " + model + " - --json", "The river runs past the mill and down to the sea.");
  const Result<Json> result = parse_json(outcome.out, "perplexity");
  ASSERT_TRUE(result.ok()) << outcome.err;
  EXPECT_GT((*result)["tokens"], 5);
  EXPECT_GT((*result)["nll"], 1.0);
  EXPECT_LT((*result)["nll"], 7.0);
}

}  // namespace
}  // namespace ibid
