// ask with a scripted model: how the question is composed, and remarks on the answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/support/scripted_model.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class AskCommandLine : public CommandLine {
 protected:
  // Returns a model that answers "yes" to this question only.
  std::string model_that_expects(const std::string& question) const {
    const std::string path = dir_.file("scripted.gguf");
    write_scripted_model(path, {{"q == " + question, "yes"}, {"", "no"}});
    return path;
  }

  Outcome ask(const std::string& question, const std::string& words, const std::string& input = "") const {
    return run("ask -m " + model_that_expects(question) + " " + words, input);
  }
};

TEST_F(AskCommandLine, UnquotedWordsFormOneText) {
  EXPECT_EQ(ask("'Why is it so?'", "Why is it so?").out, "yes\n");
  EXPECT_EQ(ask("'[1,2] and [3]'", "'[1,2]' and '[3]'").out, "yes\n");
  EXPECT_EQ(ask("'-5 is what'", "-- -5 is what").out, "yes\n");
  EXPECT_EQ(ask("'Why?'", "-p 'Why?'").out, "yes\n");
  const std::string model = model_that_expects("'hello there'");
  EXPECT_EQ(run("ask " + model + " hello there").out, "yes\n") << "a first word that names a model is the model";
  EXPECT_EQ(run("ask " + model, "hello there\n").out, "yes\n");
  EXPECT_EQ(ask("'" + model + "'", "'" + model + "'").out, "yes\n") << "with -m no word is taken as the model";
  EXPECT_EQ(ask("'x'", "-p x y").status, 2);
}

TEST_F(AskCommandLine, PipedTextJoinsTheQuestion) {
  EXPECT_EQ(ask("'The text.\\n\\nSummarise'", "Summarise", "The text.\n").out, "yes\n");
  EXPECT_EQ(ask("'What is 2+2?'", "-", "What is 2+2?\n").out, "yes\n");
  EXPECT_EQ(ask("'What is 2+2?'", "", "What is 2+2?\n").out, "yes\n");
  const std::string file = dir_.write("notes.txt", "notes\n");
  EXPECT_EQ(ask("'notes\\n\\nSummarise'", "Summarise -f " + file).out, "yes\n");
  const Outcome empty = ask("''", "-", "\n");
  EXPECT_EQ(empty.status, 1);
  EXPECT_THAT(empty.err, HasSubstr("nothing to answer"));
  EXPECT_EQ(ask("'x'", "-f " + dir_.file("none") + " x").status, 1);
}

TEST_F(AskCommandLine, SystemMessageMayComeFromAFile) {
  const std::string file = dir_.write("system.txt", "You are brief.\n");
  const std::string expects = "'x'";
  const Outcome outcome = ask(expects, "x --json --system-file " + file);
  const Result<Json> json = parse_json(outcome.out, "ask");
  ASSERT_TRUE(json.ok()) << outcome.out << outcome.err;
  EXPECT_EQ((*json)["messages"][0], Json({{"role", "system"}, {"content", "You are brief."}}));
  EXPECT_EQ(ask(expects, "x --system a --system-file " + file).status, 2);
  EXPECT_EQ(ask(expects, "x --system-file " + dir_.file("none")).status, 1);
}

TEST_F(AskCommandLine, JsonOutputHasTheFieldsOfChatCompletions) {
  const Outcome outcome = ask("'Why?'", "Why? --json");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  const Result<Json> json = parse_json(outcome.out, "ask");
  ASSERT_TRUE(json.ok()) << outcome.out;
  EXPECT_EQ((*json)["object"], "chat.completion");
  EXPECT_EQ((*json)["model"], "scripted.gguf");
  EXPECT_THAT((*json)["id"].get<std::string>(), testing::StartsWith("chatcmpl-"));
  EXPECT_GT((*json)["created"], 1'600'000'000);
  const Json& choice = (*json)["choices"][0];
  EXPECT_EQ(choice["message"], Json({{"role", "assistant"}, {"content", "yes"}}));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ((*json)["finish_reason"], "stop");
  EXPECT_EQ((*json)["messages"], Json({{{"role", "user"}, {"content", "Why?"}}, choice["message"]}));
  const Json& usage = (*json)["usage"];
  EXPECT_GT(usage["prompt_tokens"], 0);
  EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<int>() + usage["completion_tokens"].get<int>());
  EXPECT_EQ(usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"].get<int>() +
                                        usage["prompt_tokens_details"]["prefilled_tokens"].get<int>());
  EXPECT_GE((*json)["timings"]["total_ms"], 0.0);
}

TEST_F(AskCommandLine, ErrorsWithJsonAreJson) {
  const Outcome wrong = run("ask --json --top-p 2 hello");
  EXPECT_EQ(wrong.status, 2);
  const Outcome absent = run("ask --json -m /no/such.gguf hello");
  EXPECT_EQ(absent.status, 1);
  for (const Outcome& outcome : {wrong, absent}) {
    const Result<Json> json = parse_json(outcome.out, "error");
    ASSERT_TRUE(json.ok()) << outcome.out;
    EXPECT_FALSE((*json)["error"]["message"].get<std::string>().empty());
    EXPECT_EQ((*json)["error"]["type"], "invalid_request_error");
    EXPECT_THAT(outcome.err, testing::StartsWith("ibid: "));
  }
  EXPECT_EQ((*parse_json(absent.out, "error"))["error"]["code"], "model_not_found");
}

TEST_F(AskCommandLine, TruncatedAnswerIsReportedWithAdvice) {
  const std::string path = dir_.file("endless.gguf");
  write_scripted_model(path, {{"'say' in q", "one two three four five six seven eight nine ten", true}}, 256);
  const std::string ask = "ask -m " + path + " say --seed 1 --temp 1 --min-p 0 ";
  const Outcome cut = run(ask + "--stop-repetition off");
  EXPECT_EQ(cut.status, 0);
  EXPECT_THAT(cut.err, HasSubstr("cut after 64 tokens; --max-tokens N sets another limit"))
      << "a quarter of the context";
  EXPECT_THAT(run(ask + "-n 5").err, HasSubstr("cut after 5 tokens; --max-tokens"));
  EXPECT_THAT(run(ask + "-n unlimited --stop-repetition off").err, HasSubstr("the context is full"));
  EXPECT_THAT(run(ask + "-n 5 --json").err, IsEmpty());
}

TEST_F(AskCommandLine, JsonAnswersAreUnlimitedByDefault) {
  const std::string path = dir_.file("endless.gguf");
  write_scripted_model(path, {{"'say' in q", "one two three four five six seven eight nine ten", true}}, 256);
  for (const std::string& command : {"ask --json -m " + path + " say", "chat --json -p say " + path}) {
    const auto tokens = [&](const std::string& more) {
      const Outcome outcome = run(command + " --seed 1 --temp 1 --min-p 0 " + more);
      const Result<Json> json = parse_json(outcome.out, "answer");
      CHECK(json.ok()) << outcome.out << outcome.err;
      return (*json)["usage"]["completion_tokens"].get<size_t>();
    };
    EXPECT_GT(tokens(""), 150u) << "until the context is full";
    EXPECT_EQ(tokens("-n 5"), 5u);
  }
  // The answer repeats itself at once. With --json it continues by default.
  const std::string same = dir_.file("same.gguf");
  write_scripted_model(same, {{"", "la la", true}}, 2048);
  const auto reason = [&](const std::string& more) {
    const Outcome outcome = run("ask --json -m " + same + " say --seed 1 --temp 0 -n 1500 " + more);
    const Result<Json> json = parse_json(outcome.out, "answer");
    CHECK(json.ok()) << outcome.out << outcome.err;
    return (*json)["finish_reason"].get<std::string>();
  };
  EXPECT_EQ(reason(""), "length");
  EXPECT_EQ(reason("--stop-repetition on"), "repetition");
}

TEST_F(AskCommandLine, ContextLongerThanTrainedGivesAWarningAndAnAnswer) {
  const std::string path = dir_.file("short.gguf");
  write_scripted_model(path, {{"", "yes"}}, 256);
  const Outcome outcome = run("ask -m " + path + " x -c 512");
  EXPECT_EQ(outcome.out, "yes\n");
  EXPECT_THAT(outcome.err, HasSubstr("trained for 256 positions"));
  EXPECT_THAT(outcome.err, HasSubstr("--context 512"));
  EXPECT_THAT(run("ask -m " + path + " x -c 256").err, IsEmpty());
}

TEST_F(AskCommandLine, ContextFullAdviceNamesOptionsNotFunctions) {
  const std::string path = dir_.file("short.gguf");
  write_scripted_model(path, {{"", "yes"}}, 64);
  const std::string text(300, 'x');
  for (const std::string& command : {"ask -m " + path + " " + text, "chat --when-full error -p " + text + " " + path}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("to fix this: "));
    EXPECT_THAT(outcome.err, testing::Not(HasSubstr("()")));
  }
}

TEST_F(AskCommandLine, ClosedOutputPipeEndsQuietly) {
  const std::string path = dir_.file("long.gguf");
  write_scripted_model(path, {{"", "one two three four five six seven eight nine ten", true}}, 4096);
  const std::string ask = std::string(IBID_PROGRAM) + " ask -m " + path + " x --seed 1 -n unlimited </dev/null";
  const std::string status = dir_.file("status"), err = dir_.file("err");
  ASSERT_EQ(std::system(("(" + ask + " 2>" + err + "; echo $? >" + status + ") | true").c_str()), 0);
  EXPECT_EQ(read_whole_file(status), "141\n");
  EXPECT_THAT(read_whole_file(err), IsEmpty());
}

}  // namespace
}  // namespace ibid
