#include "apps/command_line/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/scripted_model.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

std::string error_of(const std::string& text) { return parse_config(text, "c.toml").status().message(); }

TEST(ConfigFile, ParsesTomlSettings) {
  const Result<Config> config = parse_config(
      "# comment\n"
      "model = \"a # b\"   # behind\n"
      "top_k=4_0\r\n"
      "[chat]\n"
      "stop = [ 'a\\n', \"b\\tc\\u00e9\", ]\n"
      "verbose = true\n"
      "[ preset . \"very brief\" ]\n"
      "system = \"\"\"\n"
      "You are\n"
      "brief. \\\n"
      "   Very.\"\"\"\n"
      "temp = -0.5e-3\n"
      "text = '''it's'''",
      "c.toml");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const std::vector<ConfigSetting>& s = config->settings;
  ASSERT_EQ(s.size(), 7u);
  EXPECT_EQ(s[0].table + "|" + s[0].name + "|" + s[0].values[0], "|model|a # b");
  EXPECT_EQ(s[1].name + "|" + s[1].values[0], "top-k|40");
  EXPECT_EQ(s[2].table, "chat");
  EXPECT_THAT(s[2].values, ElementsAre("a\\n", "b\tc\xc3\xa9"));
  EXPECT_EQ(s[3].values[0], "true");
  EXPECT_EQ(s[4].table, "preset.very brief");
  EXPECT_EQ(s[4].values[0], "You are\nbrief. Very.");
  EXPECT_EQ(s[4].line, 8u);
  EXPECT_EQ(s[5].values[0], "-0.5e-3");
  EXPECT_EQ(s[5].line, 12u);
  EXPECT_EQ(s[6].values[0], "it's");
  EXPECT_THAT(config->tables,
              ElementsAre(Field(&ConfigTable::name, "chat"), Field(&ConfigTable::name, "preset.very brief")));
  EXPECT_TRUE(parse_config("", "c.toml")->settings.empty());
  EXPECT_EQ(parse_config("\xEF\xBB\xBFthreads = 2\r\n", "c.toml")->settings.size(), 1u) << "with a byte order mark";
}

TEST(ConfigFile, ErrorsNameFileAndLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"\nmodel\n", "c.toml:2: Error while parsing key-value pair: expected '='"},
      {"a = 1\na = 2\n", "c.toml:2: Error while parsing key-value pair: cannot redefine existing integer 'a'"},
      {"a_b = 1\na-b = 2\n", "c.toml:2: 'a-b' has a value already, in line 1"},
      {"a = \"x\n", "c.toml:1: Error while parsing string: unescaped control characters"},
      {"\n\na = '''x\n\n", "c.toml:4: Error while parsing literal string: encountered end-of-file"},
      {"a = smollm2", "c.toml:1: Error while parsing value: could not determine value type"},
      {"a = ", "c.toml:1: Error while parsing key-value pair: encountered end-of-file"},
      {"a = 1 2", "c.toml:1: Error while parsing key-value pair: expected a comment or whitespace, saw '2'"},
      {"a = [1, 2", "c.toml:1: Error while parsing array: encountered end-of-file"},
      {"a = [1 2]", "c.toml:1: Error while parsing array: expected comma or closing ']'"},
      {"a = \"\\q\"", "c.toml:1: Error while parsing string: unknown escape sequence"},
      {"a = \"\\ud800\"", "c.toml:1: Error while parsing unicode scalar sequence: unicode surrogates"},
      {"[chat\n", "c.toml:1: Error while parsing table header: expected ']'"},
      {"[a]\n[b]\n[a]\n", "c.toml:3: Error while parsing table header: cannot redefine existing table 'a'"},
      {"= 1", "c.toml:1: Error while parsing root table: expected keys"},
      {"a = \"\xff\"", "c.toml:1: Encountered invalid utf-8 sequence"},
      {"\na = 2026-01-31", "c.toml:2: 'a' must be a text in quotes, a number, true or false"},
      {"a = [1, [2]]", "c.toml:1: 'a' must be a text in quotes"},
      {"[[a]]\nb = 1", "c.toml:1: 'a' must be a text in quotes"}};
  for (const auto& [text, error] : cases) EXPECT_THAT(error_of(text), HasSubstr(error)) << text;
  std::string deep = "\na";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  EXPECT_THAT(error_of(deep + " = 1"), HasSubstr("c.toml:2: the line has more than 4000 dots"));
}

TEST(ConfigFile, NumbersKeepTheirSpelling) {
  const Result<Config> config =
      parse_config("\xEF\xBB\xBF\"\xc3\xa9\" = [0.70, 1_0, 0x1F]\nb.c = +1.50e0 # x\n", "c.toml");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_THAT(config->settings[0].values, ElementsAre("0.70", "10", "0x1F"));
  EXPECT_EQ(config->settings[1].table + "|" + config->settings[1].values[0], "b|+1.50e0");
}

class ConfigCommandLine : public CommandLine {
 protected:
  ConfigCommandLine() : folder_("XDG_CONFIG_HOME", dir_.path()) {
    std::filesystem::create_directory(dir_.file("ibid"));
    write_scripted_model(dir_.file("m.gguf"), {{"", "one two three four five"}});
  }

  void config(const std::string& text) const {
    dir_.write("ibid/config.toml", "model = \"" + dir_.file("m.gguf") + "\"\n" + text);
  }

  ScopedVariable folder_;
};

TEST_F(ConfigCommandLine, PrecedenceIsCommandLineThenPresetThenCommandTableThenTopLevel) {
  config("max-tokens = 4\n[ask]\nmax-tokens = 3\n[preset.short]\nmax_tokens = 2\n[preset.empty]\n");
  const auto n_words = [&](const std::string& options) {
    const Outcome outcome = run("ask hello --temp 0 --json " + options);
    const Result<Json> json = parse_json(outcome.out, "ask");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json.ok() ? (*json)["usage"]["completion_tokens"].get<int>() : -1;
  };
  EXPECT_EQ(n_words("--preset short -n 1"), 1);
  EXPECT_EQ(n_words("--preset short"), 2);
  EXPECT_EQ(n_words("--preset empty"), 3);
  EXPECT_EQ(n_words(""), 3);
  config("max-tokens = 4\n");
  EXPECT_EQ(n_words(""), 4);
  EXPECT_EQ(n_words("--config '' -n 1 -m " + dir_.file("m.gguf")), 1);
}

TEST_F(ConfigCommandLine, InvalidSettingsAreReportedWithTheirLine) {
  const std::string file = dir_.file("ibid/config.toml");
  const std::pair<const char*, const char*> cases[] = {
      {"temperatur = 1\n", ":2: unknown option 'temperatur'; did you mean temperature?"},
      {"[ask]\nresume = \"x\"\n", ":3: unknown option 'resume'"},
      {"[aks]\n", ":2: [aks] is not a known table"},
      {"temperature = 200\n", ":2: --temperature: 200, allowed: 0 to 100"},
      {"threads = 0\n", ":2: --threads: '0' is not a whole number from 1 to 1024"},
      {"json = 3\n", ":2: json must be true or false"},
      {"config = \"x\"\n", ":2: unknown option 'config'"},
      {"temperature = \n", ":2: Error while parsing key-value pair: expected value"}};
  for (const auto& [text, error] : cases) {
    config(text);
    const Outcome outcome = run("ask hello");
    EXPECT_EQ(outcome.status, 2) << text;
    EXPECT_THAT(outcome.err, HasSubstr(file + error)) << text;
  }
  config("[preset.brief]\n");
  EXPECT_THAT(run("ask hello --preset breif").err, HasSubstr("no preset 'breif'"));
  EXPECT_EQ(run("ask hello --config " + dir_.file("none.toml")).status, 2);
  config("temperature = 200\n");
  EXPECT_EQ(run("ask --help").status, 0);
  EXPECT_EQ(run("version").status, 0);
}

TEST_F(ConfigCommandLine, ConfigStringsAreTakenLiterally) {
  config("[preset.list]\nsystem = \"[a, b]\"\n");
  const Outcome outcome = run("ask hello --json --preset list");
  const Result<Json> json = parse_json(outcome.out, "ask");
  ASSERT_TRUE(json.ok()) << outcome.err;
  EXPECT_EQ((*json)["messages"][0]["content"], "[a, b]");
  const std::string system = dir_.write("s.txt", "from a file");
  const Outcome other = run("ask hello --json --preset list --system-file " + system);
  const Result<Json> other_json = parse_json(other.out, "ask");
  ASSERT_TRUE(other_json.ok()) << other.err;
  EXPECT_EQ((*other_json)["messages"][0]["content"], "from a file") << "the command line overrides the preset";
}

}  // namespace
}  // namespace ibid
