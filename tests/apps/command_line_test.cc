// Exit statuses, output streams, and error messages for wrong usage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "apps/program.h"
#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/scoped_variable.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(CommandLine, WrongUsageExitsWith2AndHelpWith0) {
  EXPECT_EQ(run("").status, 2);
  EXPECT_EQ(run("no-such-command").status, 2);
  EXPECT_EQ(run("chat --kv f99").status, 2);
  EXPECT_EQ(run("chat --threads 0").status, 2);
  EXPECT_EQ(run("ask --speculate maybe hello").status, 2);
  const Outcome wrong = run("ask --no-such-option hello");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(wrong.out.empty());
  EXPECT_THAT(wrong.err, StartsWith("ibid: "));
  const Outcome help = run("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("chat"));
}

TEST_F(CommandLine, FailureToWriteOutputIsReported) {
  dir_.write("stdout", "");  // read by run()
  dir_.write("stderr", "");
  write_tiny_model({}, dir_.file("m.gguf"));
  const std::vector<std::string> commands = {"help",
                                             "help ask",
                                             "ask --help",
                                             "version",
                                             "inspect " + dir_.file("m.gguf"),
                                             "inspect --json " + dir_.file("m.gguf")};
  for (const std::string& command : commands) {
    EXPECT_EQ(run(command + " >/dev/full 2>" + dir_.file("e") + "; exit $? #").status, 1) << command;
    EXPECT_THAT(read_whole_file(dir_.file("e")), HasSubstr("cannot write to standard output")) << command;
  }
}

TEST_F(CommandLine, SamplerOptionsOutOfRangeAreWrongUsage) {
  const std::pair<const char*, const char*> cases[] = {
      {"--temperature nan", "--temperature: nan, allowed: 0 to 100"},
      {"--temp -1", "--temperature: -1"},
      {"--top-k -1", "--top-k"},
      {"--top-p 2", "--top-p: 2, allowed: above 0, to 1"},
      {"--typical-p 0", "--typical-p: 0"},
      {"--xtc-probability 1.5", "--xtc-probability: 1.5"},
      {"--xtc-threshold inf", "--xtc-threshold: inf"},
      {"--repeat-penalty 0", "--repeat-penalty: 0"},
      {"--repeat-last-n -2", "--repeat-last-n"},
      {"--frequency-penalty 3", "--frequency-penalty: 3"},
      {"--presence-penalty -3", "--presence-penalty: -3"},
      {"--dry-multiplier -1", "--dry-multiplier: -1"},
      {"--dry-base 0.5", "--dry-base: 0.5"},
      {"--dry-allowed-length 0", "--dry-allowed-length: 0"},
      {"--dry-penalty-last-n 1e3", "--dry-penalty-last-n"},
      {"--dry-sequence-breaker ''", "--dry-sequence-breaker"},
      {"--logit-bias 5", "'5' is not ID=VALUE"},
      {"--logit-bias 5=", "not ID=VALUE"},
      {"--logit-bias 5=true", "not ID=VALUE"},
      {"--logit-bias 99999999999=1", "not ID=VALUE"},
      {"--logit-bias 5=inf", "logit_bias of token id 5: inf"},
      {"--logit-bias 5=nan", "logit_bias of token id 5: nan"},
      {"--logit-bias -5=1", "logit_bias: token id -5"},
      {"--seed 1180591620717411303424", "--seed"},
      {"--seed -1", "--seed"},
      {"--max-tokens -2", "--max-tokens: '-2' is not a whole number"},
      {"-n many", "--max-tokens"},
      {"--stop-repetition maybe", "--stop-repetition: 'maybe' is not on or off"},
      {"-c 0", "--context: '0' is not a whole number from 1 to 16777216"},
      {"-t 1025", "--threads: '1025' is not a whole number from 1 to 1024"},
      {"--kv f99", "--kv: 'f99' is not one of f32, f16, int8, k8v4, int4"},
      {"--max-tokens 1e18", "--max-tokens"},
      {"--json --logprobs 21", "--logprobs"},
      {"--json --logprobs -1", "--logprobs"},
      {"--logprobs 2", "--json"}};
  for (const auto& [options, culprit] : cases) {
    const Outcome outcome = run("ask " + std::string(options) + " hello");
    EXPECT_EQ(outcome.status, 2) << options;
    const bool json = std::string(options).find("--json") != std::string::npos;  // errors are JSON in this case
    EXPECT_EQ(outcome.out.empty(), !json) << options;
    EXPECT_THAT(outcome.err, StartsWith("ibid: ")) << options;
    EXPECT_THAT(outcome.err, HasSubstr(culprit)) << options;
  }
  EXPECT_EQ(run("chat --top-p 2").status, 2);
  // These values are valid, so the command fails later, because the model does not exist.
  EXPECT_EQ(run("ask /no/such.gguf hello --typical 0.9 --repeat-last-n -1 --dry-penalty-last-n 0 --logit-bias 5=-inf "
                "--logit-bias 7=+1.5 --dry-sequence-breaker none --seed 18446744073709551615 --json --logprobs 0")
                .status,
            1);
}

TEST_F(CommandLine, WrongUsageErrorsNameTheHelpAndSimilarNames) {
  EXPECT_THAT(run("").err, HasSubstr("a command is missing"));
  EXPECT_THAT(run("").err, HasSubstr("perplexity")) << "the commands are listed";
  EXPECT_THAT(run("frobnicate").err, HasSubstr("unknown command 'frobnicate'"));
  EXPECT_THAT(run("--frobnicate").err, HasSubstr("unknown option '--frobnicate'"));
  EXPECT_THAT(run("chat --frobnicate").err, HasSubstr("`ibid chat --help`"));
  EXPECT_THAT(run("inspekt").err, HasSubstr("did you mean inspect?"));
  EXPECT_THAT(run("ask --sytem x hello").err, HasSubstr("unknown option '--sytem'; did you mean --system?"));
  EXPECT_THAT(run("chat one two").err, HasSubstr("'two'"));
}

TEST_F(CommandLine, UnknownModelErrorListsValidForms) {
  const std::pair<const char*, const char*> cases[] = {{"smolm2", "did you mean smollm2?"},
                                                       {"smollm2:135m", "did you mean smollm2?"},
                                                       {"hf.co/somebody/x", "ibid pull hf:OWNER/NAME"},
                                                       {"somebody/Some-Model", "ibid pull hf:OWNER/NAME"},
                                                       {"https://example.org/y.gguf", "ibid pull hf:OWNER/NAME"},
                                                       {"llama3", "a directory with safetensors"}};
  for (const auto& [name, hint] : cases) {
    const Outcome outcome = run(std::string("ask -m ") + name + " hello");
    EXPECT_EQ(outcome.status, 1) << name;
    EXPECT_THAT(outcome.err, HasSubstr(hint)) << name;
    EXPECT_THAT(outcome.err, HasSubstr("known name (smollm2)")) << name;
  }
}

TEST_F(CommandLine, CommandsFailWithTheReasonIfHomeIsNotSet) {
  const ScopedVariable models("IBID_MODELS", ""), data("XDG_DATA_HOME", ""), state("XDG_STATE_HOME", "relative");
  const ScopedVariable home("HOME", "");
  for (const char* command : {"ask hello", "pull", "chat --resume talk"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.err, HasSubstr("HOME is not set")) << command;
  }
}

TEST_F(CommandLine, MissingModelIsNotFetchedWithoutConsent) {
  const ScopedVariable models("IBID_MODELS", dir_.file("nowhere"));
  for (const char* command : {"ask hello", "chat", "inspect"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.err, HasSubstr("the directory does not exist")) << command;
    EXPECT_THAT(outcome.err, HasSubstr("`ibid pull smollm2` fetches it")) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.file("nowhere")));
}

// CLI11 alone takes the next word for the value of "--option=".
TEST_F(CommandLine, OptionWithNothingAfterItsEqualsSignHasAnEmptyValue) {
  const std::string model = tiny_model();
  const Outcome system = run("ask -m " + model + " --system= hi");
  EXPECT_THAT(system.err, Not(HasSubstr("the text is empty")));
  const Outcome number = run("ask -m " + model + " --max-tokens= hi");
  EXPECT_EQ(number.status, 2);
  EXPECT_THAT(number.err, HasSubstr("--max-tokens: '' is not a whole number"));
  const Outcome host = run("serve " + model + " --host= --threads 0");
  EXPECT_EQ(host.status, 2);
  EXPECT_THAT(host.err, HasSubstr("--threads"));
  const Outcome flag = run("inspect --quick= " + model);
  EXPECT_THAT(flag.out, HasSubstr("runs: yes"));
}

TEST(ExitStatus, UncaughtExceptionIsReportedInOneSentence) {
  const auto said = [](const std::function<int()>& run) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(exit_status_of(run), 1);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said([]() -> int { throw std::bad_alloc(); }), "ibid: not enough memory\n");
  EXPECT_EQ(said([]() -> int { throw std::runtime_error("x"); }), "ibid: internal error: x\n");
  const std::string no_thread =
      said([]() -> int { throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)); });
  EXPECT_THAT(no_thread, StartsWith("ibid: cannot start a thread: "));
  EXPECT_THAT(no_thread, HasSubstr("raise the limit of processes or memory"));
  EXPECT_EQ(exit_status_of([] { return 7; }), 7);
}

TEST_F(CommandLine, ModelIsFetchedAfterConsent) {
  std::filesystem::create_directory(dir_.file("bin"));
  dir_.write("bin/python3",
             "#!/bin/sh\necho asked >>'" + dir_.file("asked") + "'\necho 'No module named pip' >&2\nexit 1\n");
  chmod(dir_.file("bin/python3").c_str(), 0700);
  const std::map<std::string, std::string> environment = {{"IBID_MODELS", dir_.file("models")},
                                                          {"PATH", dir_.file("bin") + ":/usr/bin:/bin"}};
  for (const bool yes : {false, true}) {
    PseudoTerminal terminal({IBID_PROGRAM, "chat"}, {.environment = environment});
    ASSERT_TRUE(terminal.shows("Fetch it now"));
    ASSERT_TRUE(terminal.shows("[y/N]"));
    terminal.type(yes ? "y\r" : "\r");
    ASSERT_TRUE(terminal.shows(yes ? "python3 has no pip" : "`ibid pull smollm2` fetches it"));
    EXPECT_EQ(terminal.exit_status(), 1);
    EXPECT_EQ(access(dir_.file("asked").c_str(), F_OK) == 0, yes) << "fetched only after consent";
  }
}

TEST_F(CommandLine, AdviceNamesTheCommandOfThisInstallation) {
  const std::string before = "IBID_MODELS=" + dir_.file("models") + " XDG_DATA_HOME=" + dir_.path() + " ";
  for (const char* command : {"inspect", "bench", "ask hello", "tokenize smollm2 --jsonl"}) {
    EXPECT_THAT(run(command, "", before).err, HasSubstr("`ibid pull smollm2` fetches it")) << command;
    EXPECT_THAT(run(command, "", before + "IBID_COMMAND=./run ").err, HasSubstr("`./run pull smollm2` fetches it"));
  }
  EXPECT_THAT(run("sessions show x", "", before + "XDG_STATE_HOME=/nonexistent IBID_COMMAND=./run ").err,
              HasSubstr("`./run sessions`"));
}

// Without a network: only the attempt matters.
TEST_F(CommandLine, FetchOptionFetchesTheDefaultModelOnly) {
  dir_.write("python3", "#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n");
  chmod(dir_.file("python3").c_str(), 0700);
  const std::string before = "IBID_MODELS=" + dir_.file("models") + " PATH=" + dir_.path() + ":/usr/bin:/bin ";
  for (const char* command : {"inspect --fetch", "bench --fetch", "ask --fetch hello"}) {
    EXPECT_THAT(run(command, "", before).err, HasSubstr("python3 has no pip")) << command;
  }
  EXPECT_THAT(run("inspect --fetch smollm2", "", before).err, HasSubstr("`ibid pull smollm2`")) << "it was named";
}

TEST_F(CommandLine, FailureIsOneSentenceOnStandardError) {
  for (const char* command : {"ask /no/such/model.gguf hello", "inspect /no/such/model.gguf",
                              "tokenize /no/such/model.gguf --jsonl", "chat /no/such/model.gguf"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_TRUE(outcome.out.empty()) << command;
    EXPECT_THAT(outcome.err, StartsWith("ibid: /no/such/model.gguf: no such file")) << command;
  }
}

TEST_F(CommandLine, ChatWithoutATemplateFailsAndNamesTheModel) {
  const Outcome outcome = run("chat " + tiny_model());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("tiny.gguf"));
}

}  // namespace
}  // namespace ibid
