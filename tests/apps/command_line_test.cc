// The program as people and scripts meet it: exit status, what goes to which stream, and the tools' contracts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "apps/chat/saved_sessions.h"
#include "base/file_ops.h"
#include "base/json_limits.h"
#include "tests/support/paths.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

class CommandLine : public testing::Test {
 protected:
  // Runs `ibid ARGUMENTS` with `input` on standard input. REQUIRES: no quote in the arguments but what the shell
  // should see.
  Outcome run(const std::string& arguments, const std::string& input = "") const {
    const std::string in = dir_.write("stdin", input);
    const std::string command = std::string(IBID_PROGRAM) + " " + arguments + " <" + in + " >" + dir_.file("stdout") +
                                " 2>" + dir_.file("stderr");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_whole_file(dir_.file("stdout")),
            read_whole_file(dir_.file("stderr"))};
  }

  std::string tiny_model() const {
    const std::string path = dir_.file("tiny.gguf");
    TinyModel tiny;
    tiny.matrix_dtype = DType::kQ4_1;
    write_tiny_model(tiny, path);
    return path;
  }

  TempDir dir_;
};

TEST_F(CommandLine, WrongUsageIsTwoAndHelpIsZero) {
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

TEST_F(CommandLine, OptionsOfTheSamplerOutOfRangeAreWrongUsage) {
  const std::pair<const char*, const char*> cases[] = {
      {"--temperature nan", "temperature: nan"},
      {"--temp -1", "temperature: -1"},
      {"--top-k -1", "--top-k"},
      {"--top-p 2", "top_p: 2"},
      {"--typical-p 0", "typical_p: 0"},
      {"--xtc-probability 1.5", "xtc_probability: 1.5"},
      {"--xtc-threshold inf", "xtc_threshold: inf"},
      {"--repeat-penalty 0", "repetition_penalty: 0"},
      {"--repeat-last-n -2", "--repeat-last-n"},
      {"--frequency-penalty 3", "frequency_penalty: 3"},
      {"--presence-penalty -3", "presence_penalty: -3"},
      {"--dry-multiplier -1", "dry_multiplier: -1"},
      {"--dry-base 0.5", "dry_base: 0.5"},
      {"--dry-allowed-length 0", "dry_allowed_length: 0"},
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
      {"--max-tokens -1", "--max-tokens"},
      {"--max-tokens 1e18", "--max-tokens"},
      {"--json --logprobs 21", "--logprobs"},
      {"--json --logprobs -1", "--logprobs"},
      {"--logprobs 2", "--json"}};
  for (const auto& [options, culprit] : cases) {
    const Outcome outcome = run("ask " + std::string(options) + " hello");
    EXPECT_EQ(outcome.status, 2) << options;
    EXPECT_TRUE(outcome.out.empty()) << options;
    EXPECT_THAT(outcome.err, StartsWith("ibid: ")) << options;
    EXPECT_THAT(outcome.err, HasSubstr(culprit)) << options;
  }
  EXPECT_EQ(run("chat --top-p 2").status, 2);
  // What is allowed is not refused before the model is looked for.
  EXPECT_EQ(run("ask /no/such.gguf hello --typical 0.9 --repeat-last-n -1 --dry-penalty-last-n 0 --logit-bias 5=-inf "
                "--logit-bias 7=+1.5 --dry-sequence-breaker none --seed 18446744073709551615 --json --logprobs 0").status,
            1);
}

TEST_F(CommandLine, WrongUsageIsToldWhereToReadMore) {
  EXPECT_THAT(run("").err, HasSubstr("a command is missing"));
  EXPECT_THAT(run("").err, HasSubstr("perplexity")) << "the commands are listed";
  EXPECT_THAT(run("frobnicate").err, HasSubstr("no command 'frobnicate'"));
  EXPECT_THAT(run("--frobnicate").err, HasSubstr("no option '--frobnicate'"));
  EXPECT_THAT(run("chat --frobnicate").err, HasSubstr("`ibid chat --help`"));
  const Outcome words = run("ask Why is it so");
  EXPECT_EQ(words.status, 2);
  EXPECT_THAT(words.err, HasSubstr("quotes"));
}

TEST_F(CommandLine, InspectShowsStrangersTextInOneLineWithoutControls) {
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

TEST_F(CommandLine, RenderTakesATemplateFromAFileAndFromNothingElse) {
  const std::string path = dir_.write("t.jinja", "{{ messages[0].content }}!");
  EXPECT_EQ(run("render --template " + path, "{\"messages\": [{\"content\": \"Hi\"}]}\n").out, "{\"text\":\"Hi!\"}\n");
  EXPECT_EQ(run("render --template /dev/zero").status, 1);
  EXPECT_EQ(run("render --template /no/such.jinja").status, 1);
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

TEST_F(CommandLine, ModelWithoutATemplateCannotChatAndSaysWhy) {
  const Outcome outcome = run("chat " + tiny_model());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("tiny.gguf"));
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
  EXPECT_GT((*parsed)["memory"]["weights_bytes"], 0);
}

TEST_F(CommandLine, LogitsAreTheSameBytesForAnyChunksAndThreads) {
  const std::string model = tiny_model();
  Json ids = {{"sequences", {{{"ids", random_tokens(90, 120, 1)}},
                             {{"ids", random_tokens(30, 120, 2)}, {"positions", {0, 29, 7}}}}}};
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
  EXPECT_NE(output("--kv int8"), whole);

  run("logits " + model + " --ids " + path + " --out " + dir_.file("out.st"));
  const Outcome compared = run("logits " + model + " --ids " + path + " --compare " + dir_.file("out.st"));
  const Result<Json> result = parse_json(compared.out, "compare");
  ASSERT_TRUE(result.ok()) << compared.out << compared.err;
  EXPECT_EQ((*result)["max_dlogit"], 0.0);
  EXPECT_EQ((*result)["top1_agreement"], 1.0);
  EXPECT_EQ((*result)["positions"], 93);
}

TEST_F(CommandLine, LogitsOfIdsThatAreNoneAreRefused) {
  const std::string model = tiny_model();
  for (const char* text : {"{}", "[1,2]", R"({"sequences": [{"ids": ["a"]}]})", R"({"sequences": [{"ids": [120]}]})",
                           R"({"sequences": [{"ids": [1], "positions": [1]}]})", "not json"}) {
    const Outcome outcome = run("logits " + model + " --ids " + dir_.write("ids.json", text));
    EXPECT_EQ(outcome.status, 1) << text;
    EXPECT_THAT(outcome.err, StartsWith("ibid: ")) << text;
  }
}

TEST_F(CommandLine, BenchPrintsALineForEachFigureThatFits) {
  const std::string bench = "bench " + tiny_model() + " --rounds 1 --lengths 8,65,2000 --depths 0,64,1000 --json";
  const Outcome outcome = run(bench);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<std::string> seen;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const Result<Json> figure = parse_json(line, "figure");
    ASSERT_TRUE(figure.ok()) << line;
    EXPECT_EQ((*figure)["engine"], "ibid") << line;
    std::string name = (*figure)["what"];
    for (const char* key : {"n", "depth", "history"}) {
      if (figure->contains(key)) name += " " + std::to_string((*figure)[key].get<int>());
    }
    for (const char* value : {"tps", "ms", "ttft_ms", "peak_mb"}) {
      if (figure->contains(value)) {
        EXPECT_GT((*figure)[value], 0) << line;
      }
    }
    seen.push_back(name);
  }
  EXPECT_THAT(seen, testing::ElementsAre("load", "prefill 8", "prefill 65", "decode 0", "turn 44 0", "decode 64",
                                         "turn 44 64", "memory", "run"));
  // What does not fit into the context of 1,024, and turns of a conversation without a tokenizer, are named.
  EXPECT_THAT(outcome.err, HasSubstr("2000"));
  EXPECT_THAT(outcome.err, HasSubstr("1000"));
  EXPECT_THAT(outcome.err, HasSubstr("turns of a conversation are left out"));
  EXPECT_THAT(outcome.err, HasSubstr("this takes a few seconds"));
}

TEST_F(CommandLine, BenchExplainsItsRowsInLinesThatATerminalShows) {
  const Outcome outcome = run("bench " + tiny_model() + " --rounds 1 --lengths 8,65 --depths 64");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("decode behind N: 48 tokens"));
  EXPECT_THAT(outcome.out, HasSubstr("\ndecode behind 64 "));
  EXPECT_THAT(outcome.out, HasSubstr("prefill rate"));
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 78) << line;
}

TEST_F(CommandLine, BenchReportsAreHtmlOrCsvAndNeedAConversation) {
  const std::string bench = "bench " + tiny_model() + " --rounds 1 --what turns --depths 0 ";
  const Outcome other = run(bench + "--report " + dir_.file("out.pdf"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("neither in .html nor in .csv"));
  const Outcome without_tokenizer = run(bench + "--report " + dir_.file("out.html"));
  EXPECT_EQ(without_tokenizer.status, 1);
  EXPECT_FALSE(std::filesystem::exists(dir_.file("out.html")));
}

TEST_F(CommandLine, BenchComparesWithTheLinesOfOthersAndKeepsResults) {
  const std::string rival = dir_.write("rival.jsonl", "{\"engine\":\"slow\",\"what\":\"decode\",\"depth\":0,\"tps\":0.5}\n");
  const std::string bench = "bench " + tiny_model() + " --rounds 1 --what decode --depths 0 --against " + rival;
  const Outcome table = run(bench + " --commit abc --csv " + dir_.file("out.csv"));
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("slow"));
  EXPECT_THAT(table.out, HasSubstr("0.50"));
  EXPECT_THAT(read_whole_file(dir_.file("out.csv")), HasSubstr(",abc,"));
  dir_.write("rival.jsonl", "{\"what\":\"decode\"}\n");
  const Outcome malformed = run(bench);
  EXPECT_EQ(malformed.status, 1);
  EXPECT_TRUE(malformed.out.empty());
  EXPECT_THAT(malformed.err, HasSubstr("rival.jsonl line 1"));
  EXPECT_EQ(run(bench + " --csv " + dir_.file("out.csv")).status, 2);  // without --commit
}

TEST_F(CommandLine, RenderAnswersSnippetsLineByLine) {
  const Outcome outcome = run("render --jsonl",
                              "{\"template\": \"{{ a }} and {{ b }}\", \"variables\": {\"a\": 1, \"b\": \"x\"}}\n"
                              "\n"
                              "{\"template\": \"{{ raise_exception('no') }}\", \"variables\": {}}\n");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "{\"text\":\"1 and x\"}\n{\"error\":\"no\"}\n");
  const Outcome bad = run("render --jsonl", "{\"template\": \n");
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.err, HasSubstr("line 1"));
}

class RealModelCommandLine : public CommandLine {};

TEST_F(RealModelCommandLine, ChatFromAPipeIsOneMessageALine) {
  IBID_NEED_REAL_MODEL(model);
  const Outcome outcome = run("chat " + model + " --temperature 0 --max-tokens 8", "Hello\n\nAnd again?\n");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2) << outcome.out;
  EXPECT_TRUE(outcome.err.empty()) << outcome.err;
}

TEST_F(RealModelCommandLine, AnAnswerThatCannotBeWrittenIsAFailure) {
  IBID_NEED_REAL_MODEL(model);
  dir_.write("stdout", "");
  dir_.write("stderr", "");
  for (const std::string& command : {"chat " + model, "ask " + model + " Hello"}) {
    const std::string streams = " <" + dir_.file("stdin") + " >/dev/full 2>" + dir_.file("err");
    EXPECT_EQ(run(command + " --max-tokens 4" + streams + "; exit $? #", "Hello\n").status, 1) << command;
    EXPECT_THAT(read_whole_file(dir_.file("err")), HasSubstr("cannot be written")) << command;
  }
}

TEST_F(RealModelCommandLine, TheSameSeedGivesTheSameAnswer) {
  IBID_NEED_REAL_MODEL(model);
  const std::string ask = "ask " + model + " 'Name a colour' --max-tokens 12 --json --seed ";
  const auto answer = [&](const std::string& seed) {
    const Outcome outcome = run(ask + seed);
    const Result<Json> turn = parse_json(outcome.out, "turn");
    CHECK(turn.ok()) << outcome.err;
    EXPECT_EQ((*turn)["seed"], std::stoull(seed));
    return (*turn)["text"].get<std::string>();
  };
  const std::string first = answer("7");
  EXPECT_EQ(answer("7"), first);
  EXPECT_FALSE(first.empty());
}

TEST_F(RealModelCommandLine, LogprobsAreInTheJsonWithIdsAndText) {
  IBID_NEED_REAL_MODEL(model);
  const Outcome outcome = run("ask " + model + " 'Name a colour' --max-tokens 6 --temperature 0 --json --logprobs 3 "
                              "--repeat-penalty 1.1 --dry-multiplier 0.8");
  const Result<Json> turn = parse_json(outcome.out, "turn");
  ASSERT_TRUE(turn.ok()) << outcome.err;
  const Json& tokens = (*turn)["logprobs"];
  ASSERT_GT(tokens.size(), 0u) << outcome.out;
  std::string text;
  for (const Json& token : tokens) {
    text += token["token"].get<std::string>();
    EXPECT_LE(token["logprob"], 0.0);
    ASSERT_EQ(token["top"].size(), 3u);
    EXPECT_GE(token["top"][0]["logprob"], token["logprob"]);
    EXPECT_GE(token["top"][0]["logprob"], token["top"][1]["logprob"]);
  }
  EXPECT_EQ(text, (*turn)["text"]);
  const Outcome unknown = run("ask " + model + " hello --logit-bias 999999=1");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("token id 999999"));
}

TEST_F(RealModelCommandLine, SpeculationCanBeTurnedOffAndChangesNoAnswer) {
  IBID_NEED_REAL_MODEL(model);
  const std::string ask = "ask " + model + " 'Write the numbers from 1 to 40, separated by commas.' "
                          "--temperature 0 --max-tokens 40 --json --speculate ";
  const auto turn = [&](const std::string& speculate) {
    const Outcome outcome = run(ask + speculate);
    const Result<Json> json = parse_json(outcome.out, "turn");
    CHECK(json.ok()) << outcome.err;
    return *json;
  };
  const Json on = turn("on"), off = turn("off");
  EXPECT_EQ(on["text"], off["text"]);
  EXPECT_EQ(on["usage"]["n_decoded"], off["usage"]["n_decoded"]);
  EXPECT_GT(on["usage"]["n_drafted"], 0) << on["text"];
  EXPECT_EQ(off["usage"]["n_drafted"], 0);
}

TEST_F(RealModelCommandLine, PromptBeyondTheContextNamesBothNumbers) {
  IBID_NEED_REAL_MODEL(model);
  const Outcome outcome = run("ask " + model + " 'Tell me everything about rivers' --context 20");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.out.empty());
  EXPECT_THAT(outcome.err, HasSubstr("20"));
}

TEST_F(RealModelCommandLine, AKeptConversationIsOpenOnceAtATime) {
  IBID_NEED_REAL_MODEL(model);
  const ScopedVariable state("XDG_STATE_HOME", dir_.file("state"));
  const ScopedVariable cache("XDG_CACHE_HOME", dir_.file("cache"));
  EXPECT_EQ(run("chat " + model + " --resume ''").status, 1);
  const std::string chat = "chat " + model + " --resume talk --max-tokens 4";
  EXPECT_EQ(run(chat, "Hello\n").status, 0);
  const std::string path = *session_path("talk");
  const std::string saved = read_whole_file(path);
  {
    const auto lock = system_file_ops().lock(path + ".lock");
    ASSERT_TRUE(lock.ok());
    const Outcome refused = run(chat, "Hello\n");
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr("another ibid is in this conversation"));
  }
  EXPECT_EQ(read_whole_file(path), saved);
  const Outcome resumed = run(chat + " --when-full drop", "Again\n");
  EXPECT_EQ(resumed.status, 0);
  EXPECT_THAT(resumed.err, HasSubstr("'talk' goes on: 2 messages"));
  EXPECT_THAT(resumed.err, HasSubstr("--when-full is for new conversations"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path + ".tmp");  // nothing can be written there
  const Outcome lost = run(chat, "Hello\n");
  EXPECT_EQ(lost.status, 1) << "what was asked to be kept was not";
  EXPECT_THAT(lost.err, HasSubstr("could not be kept"));
}

TEST_F(RealModelCommandLine, PerplexityOfAText) {
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
