#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "apps/sessions/session_files.h"
#include "base/file_ops.h"
#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/support/paths.h"
#include "tests/support/scoped_variable.h"

namespace ibid {
namespace {

using testing::HasSubstr;

TEST_F(RealModelCommandLine, ChatFromAPipeAnswersLineByLine) {
  IBID_NEED_REAL_MODEL(model);
  const Outcome outcome = run("chat " + model + " --temperature 0 --max-tokens 8", "Hello\n\nAnd again?\n");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::EndsWith("\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\n\n")) << "an empty line between the two answers";
  std::istringstream said(outcome.err);
  for (std::string line; std::getline(said, line);) EXPECT_THAT(line, HasSubstr("the answer was cut after 8 tokens"));
}

TEST_F(RealModelCommandLine, FailureToWriteAnAnswerIsReported) {
  IBID_NEED_REAL_MODEL(model);
  dir_.write("stdout", "");
  dir_.write("stderr", "");
  for (const std::string& command : {"chat " + model, "ask " + model + " Hello"}) {
    const std::string streams = " <" + dir_.file("stdin") + " >/dev/full 2>" + dir_.file("err");
    EXPECT_EQ(run(command + " --max-tokens 4" + streams + "; exit $? #", "Hello\n").status, 1) << command;
    EXPECT_THAT(read_whole_file(dir_.file("err")), HasSubstr("cannot write to standard output")) << command;
  }
}

TEST_F(RealModelCommandLine, TheSameSeedGivesTheSameAnswer) {
  IBID_NEED_REAL_MODEL(model);
  const std::string ask = "ask " + model + " 'Name a colour' --max-tokens 12 --json --seed ";
  const auto answer = [&](const std::string& seed) {
    const Outcome outcome = run(ask + seed);
    const Result<Json> turn = parse_json(outcome.out, "turn");
    CHECK(turn.ok()) << outcome.err;
    EXPECT_EQ((*turn)["choices"][0]["seed"], std::stoull(seed));
    return (*turn)["choices"][0]["message"]["content"].get<std::string>();
  };
  const std::string first = answer("7");
  EXPECT_EQ(answer("7"), first);
  EXPECT_FALSE(first.empty());
}

TEST_F(RealModelCommandLine, JsonHasLogprobsWithTokens) {
  IBID_NEED_REAL_MODEL(model);
  const Outcome outcome = run("ask " + model +
                              " 'Name a colour' --max-tokens 6 --temperature 0 --json --logprobs 3 "
                              "--repeat-penalty 1.1 --dry-multiplier 0.8");
  const Result<Json> turn = parse_json(outcome.out, "turn");
  ASSERT_TRUE(turn.ok()) << outcome.err;
  const Json& choice = (*turn)["choices"][0];
  const Json& tokens = choice["logprobs"]["content"];
  ASSERT_GT(tokens.size(), 0u) << outcome.out;
  std::string text;
  for (const Json& token : tokens) {
    text += token["token"].get<std::string>();
    EXPECT_LE(token["logprob"], 0.0);
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_GE(token["top_logprobs"][0]["logprob"], token["logprob"]);
    EXPECT_GE(token["top_logprobs"][0]["logprob"], token["top_logprobs"][1]["logprob"]);
  }
  EXPECT_EQ(choice["message"]["content"], text);
  const Outcome unknown = run("ask " + model + " hello --logit-bias 999999=1");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("token id 999999"));
}

TEST_F(RealModelCommandLine, SpeculationChangesNoAnswerAndCanBeDisabled) {
  IBID_NEED_REAL_MODEL(model);
  const std::string ask = "ask " + model +
                          " 'Write the numbers from 1 to 40, separated by commas.' "
                          "--temperature 0 --repeat-penalty 1 --max-tokens 40 --json --speculate ";
  const auto turn = [&](const std::string& speculate) {
    const Outcome outcome = run(ask + speculate);
    const Result<Json> json = parse_json(outcome.out, "turn");
    CHECK(json.ok()) << outcome.err;
    return *json;
  };
  const Json on = turn("on"), off = turn("off");
  EXPECT_EQ(on["messages"], off["messages"]);
  EXPECT_EQ(on["usage"]["completion_tokens"], off["usage"]["completion_tokens"]);
  const auto n_drafted = [](const Json& json) {
    const Json& details = json["usage"]["completion_tokens_details"];
    return details["accepted_prediction_tokens"].get<int>() + details["rejected_prediction_tokens"].get<int>();
  };
  EXPECT_GT(n_drafted(on), 0) << on["messages"];
  EXPECT_EQ(n_drafted(off), 0);
}

TEST_F(RealModelCommandLine, PromptBeyondTheContextIsAnError) {
  IBID_NEED_REAL_MODEL(model);
  const Outcome outcome = run("ask " + model + " 'Tell me everything about rivers' --context 20");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.out.empty());
  EXPECT_THAT(outcome.err, HasSubstr("20"));
}

TEST_F(RealModelCommandLine, SavedConversationIsLockedWhileOpen) {
  IBID_NEED_REAL_MODEL(model);
  const ScopedVariable state("XDG_STATE_HOME", dir_.file("state"));
  const ScopedVariable cache("XDG_CACHE_HOME", dir_.file("cache"));
  EXPECT_EQ(run("chat " + model + " --resume ''").status, 1);
  const std::string chat = "chat " + model + " --resume talk --max-tokens 4";
  EXPECT_EQ(run(chat, "Hello\n").status, 0);
  const std::string path = SessionFiles(system_file_ops(), *sessions_directory()).path("talk");
  const std::string saved = read_whole_file(path);
  {
    const auto lock = system_file_ops().lock(path + ".lock");
    ASSERT_TRUE(lock.ok());
    const Outcome refused = run(chat, "Hello\n");
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr("has this conversation open"));
  }
  EXPECT_EQ(read_whole_file(path), saved);
  const Outcome resumed = run(chat + " --when-full drop", "Again\n");
  EXPECT_EQ(resumed.status, 0);
  EXPECT_THAT(resumed.err, HasSubstr("resumed 'talk': 2 messages"));
  std::filesystem::remove(path);
  // With files limited to one block, and SIGXFSZ ignored, saving fails; the program must not crash.
  const Outcome lost = run(chat, std::string(3000, 'x') + "\n", "trap '' XFSZ; ulimit -f 1; ");
  EXPECT_EQ(lost.status, 1) << "the conversation was not saved";
  EXPECT_THAT(lost.err, HasSubstr("could not be kept"));
}

}  // namespace
}  // namespace ibid
