#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/apps/python_server.h"
#include "tests/server/talking_model.h"

namespace ibid {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

const std::string kSchema = R"({"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":99},)"
                            R"("ok":{"type":"boolean"}},"required":["n","ok"],"additionalProperties":false})";

class ResponseFormat : public CommandLine {
 protected:
  ResponseFormat() { write_talking_model(model_); }
  Outcome ask(const std::string& more) const { return run("ask -m " + model_ + " --seed 3 Hello " + more); }

  const std::string model_ = dir_.file("talker.gguf");
};

TEST_F(ResponseFormat, AskAnswersMatchTheResponseFormat) {
  for (const std::string& schema : {dir_.write("schema.json", kSchema), "'" + kSchema + "'"}) {
    const Outcome outcome = ask("--json-schema " + schema);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Result<Json> answer = parse_json(outcome.out, "answer");
    ASSERT_TRUE(answer.ok()) << outcome.out;
    EXPECT_TRUE((*answer)["n"].is_number_integer() && (*answer)["ok"].is_boolean()) << outcome.out;
  }
  EXPECT_TRUE(std::regex_match(ask("--regex '[a-c]{3}-[0-9]{2}'").out, std::regex("[a-c]{3}-[0-9]{2}\n")));
  EXPECT_THAT(ask("--choices 'red,deep\\, dark blue' --choices green").out,
              AnyOf("red\n", "deep, dark blue\n", "green\n"));
  const std::string grammar = dir_.write("move.gbnf", "# a move\nroot ::= [a-h] [1-8] \"-\" [a-h] [1-8]\n");
  EXPECT_TRUE(std::regex_match(ask("--grammar " + grammar).out, std::regex("[a-h][1-8]-[a-h][1-8]\n")));
}

TEST_F(ResponseFormat, AskFailsIfAnAnswerIsCut) {
  const Outcome cut = ask("-n 2 --regex '[a-c]{9}'");
  EXPECT_EQ(cut.status, 1);
  EXPECT_THAT(cut.err, HasSubstr("cut after 2 tokens"));
  EXPECT_EQ(ask("-n 2 --regex '[a-c]{9}' --json").status, 1);
  EXPECT_EQ(ask("-n 2").status, 0) << "free text may be cut";
}

TEST_F(ResponseFormat, EveryChatAnswerMatchesTheResponseFormat) {
  const Outcome outcome = run("chat " + model_ + " --choices yes,no", "Is it?\nReally?\n");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(std::regex_match(outcome.out, std::regex("(yes|no)\n\n(yes|no)\n"))) << outcome.out;
}

TEST_F(ResponseFormat, InvalidResponseFormatErrorsNameFileAndPosition) {
  const std::string schema = dir_.write("wrong.json", R"({"properties": {"a": {"not": {"multipleOf": 2}}}})");
  const Outcome keyword = ask("--json-schema " + schema);
  EXPECT_EQ(keyword.status, 1);
  EXPECT_THAT(keyword.err, HasSubstr(schema + ": "));
  EXPECT_THAT(keyword.err, HasSubstr("#/properties/a/not"));
  EXPECT_THAT(ask("--json-schema '{\"type\": }'").err, HasSubstr("--json-schema: "));
  EXPECT_THAT(ask("--json-schema /no/such.json").err, HasSubstr("/no/such.json"));
  const std::string grammar = dir_.write("wrong.gbnf", "root ::= \"a\"\nother ::= (\n");
  const Outcome gbnf = ask("--grammar " + grammar);
  EXPECT_EQ(gbnf.status, 1);
  EXPECT_THAT(gbnf.err, HasSubstr(grammar + ": "));
  EXPECT_THAT(gbnf.err, HasSubstr("line"));
  EXPECT_THAT(ask("--regex '(a'").err, HasSubstr("--regex: "));
  EXPECT_EQ(ask("--choices a,,b").status, 2);
  for (const char* option : {"--json-schema", "--grammar", "--regex", "--choices"}) {
    EXPECT_EQ(ask(option + std::string(" ''")).status, 2) << option;
  }
  EXPECT_EQ(ask("--choices a --regex b").status, 2);
  const Outcome early = run("ask -m /no/such.gguf --regex '(a' Hello");
  EXPECT_THAT(early.err, HasSubstr("--regex: ")) << "checked before the model is resolved";
}

TEST_F(ResponseFormat, ChatWithUrlSendsResponseFormatInRequestFields) {
  PythonServer server({IBID_CHAT_SERVER, dir_.file("log")});
  const std::string chat = "chat --config '' --url " + server.url();
  const std::string grammar = dir_.write("x.gbnf", "root ::= \"a\"\n");
  for (const std::string& form : {"--json-schema '" + kSchema + "'", std::string("--regex '[a]+'"),
                                  std::string("--choices a,b"), "--grammar " + grammar}) {
    EXPECT_EQ(run(chat + " " + form, "Hi\n").status, 0) << form;
  }
  std::istringstream lines(read_whole_file(dir_.file("log")));
  std::vector<Json> sent;
  for (std::string line; std::getline(lines, line);) sent.push_back(*parse_json(line, "log"));
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[0]["response_format"]["json_schema"]["schema"], *parse_json(kSchema, "schema"));
  EXPECT_EQ(sent[1]["structured_outputs"]["regex"], "[a]+");
  EXPECT_EQ(sent[2]["structured_outputs"]["choice"], Json({"a", "b"}));
  EXPECT_EQ(sent[3]["grammar"], "root ::= \"a\"\n");
  EXPECT_EQ(run(chat + " --regex '(a'", "Hi\n").status, 1);
}

}  // namespace
}  // namespace ibid
