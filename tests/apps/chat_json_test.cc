#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/scripted_model.h"

namespace ibid {
namespace {

class ChatJsonCommandLine : public CommandLine {
 protected:
  ChatJsonCommandLine() { write_scripted_model(dir_.file("m.gguf"), {{"'first' in q", "one"}, {"", "two"}}, 512); }

  std::vector<Json> lines_of(const std::string& text) const {
    std::vector<Json> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      const Result<Json> json = parse_json(line, "line");
      EXPECT_TRUE(json.ok()) << line;
      if (json.ok()) lines.push_back(*json);
    }
    return lines;
  }
};

TEST_F(ChatJsonCommandLine, EachMessageIsAnsweredByOneJsonLine) {
  const Outcome outcome = run("chat --json " + dir_.file("m.gguf"), "first\n\nthen\r\n");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.empty()) << outcome.err;
  const std::vector<Json> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["choices"][0]["message"]["content"], "one");
  EXPECT_EQ(lines[1]["choices"][0]["message"]["content"], "two");
  EXPECT_EQ(lines[1]["messages"].size(), 4u);
  EXPECT_GT(lines[1]["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_NE(lines[0]["id"], lines[1]["id"]);
}

TEST_F(ChatJsonCommandLine, ErrorIsAJsonLineAndTheNextMessageIsAnswered) {
  const std::string long_message(4000, 'x');
  const Outcome outcome =
      run("chat --json --when-full error " + dir_.file("m.gguf"), "first\n" + long_message + "\nthen\n");
  EXPECT_EQ(outcome.status, 1);
  const std::vector<Json> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1]["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(lines[2]["messages"].size(), 4u);
  const Outcome absent = run("chat --json /no/such.gguf");
  EXPECT_EQ(absent.status, 1);
  ASSERT_EQ(lines_of(absent.out).size(), 1u);
  EXPECT_EQ(lines_of(absent.out)[0]["error"]["code"], "model_not_found");
}

TEST_F(ChatJsonCommandLine, FirstMessageComesFromPromptAndFileOptions) {
  const std::string file = dir_.write("first.txt", "the first\n");
  const std::string model = dir_.file("m.gguf");
  const std::vector<Json> lines = lines_of(run("chat --json -f " + file + " -p Why? " + model, "then\n").out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["messages"][0]["content"], "the first\n\nWhy?");
  EXPECT_EQ(lines[1]["messages"].size(), 4u);
  EXPECT_EQ(run("chat -p first " + model, "then\n").out, "one\n\ntwo\n");
  EXPECT_EQ(run("chat -p /exit " + model, "").out, "two\n") << "not parsed as a command";
  const Outcome verbose = run("chat -v -p first " + model);
  EXPECT_THAT(verbose.err, testing::HasSubstr("m.gguf, context 512"));
  EXPECT_THAT(verbose.err, testing::ContainsRegex("[0-9]+ tokens prefilled, [0-9]+ generated"));
  EXPECT_THAT(run("chat -f - " + model).err, testing::HasSubstr("standard input is the conversation itself"));
  EXPECT_THAT(run("chat -f /no/such " + model).err, testing::HasSubstr("/no/such"));
  EXPECT_EQ(run("chat -f /no/such " + model).status, 1);
}

TEST_F(ChatJsonCommandLine, ResumeContinuesASavedConversation) {
  const ScopedVariable state("XDG_STATE_HOME", dir_.file("state"));
  const ScopedVariable cache("XDG_CACHE_HOME", dir_.file("cache"));
  const std::string chat = "chat --json --resume talk " + dir_.file("m.gguf");
  EXPECT_EQ(lines_of(run(chat, "first\n").out).size(), 1u);
  const std::vector<Json> lines = lines_of(run(chat, "then\n").out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["messages"].size(), 4u);
}

}  // namespace
}  // namespace ibid
