// Help, completions and man pages list every option, and help fits a terminal.
#include "apps/command_line/help_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "apps/program.h"
#include "apps/shell_files.h"
#include "tests/apps/command_line_fixture.h"

namespace ibid {
namespace {

using testing::HasSubstr;

class HelpText : public CommandLine {
 protected:
  std::vector<const CLI::App*> commands() const {
    const CLI::App& root = *program_;
    return root.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
  }

  static std::vector<std::string> names(const CLI::App& command) {
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options({})) {
      for (const std::string& name : option->get_lnames()) names.push_back(name);
    }
    return names;
  }

  // Returns "sessions show" and so on, without the program's name.
  std::vector<std::string> commands_of_commands() const {
    std::vector<std::string> all;
    for (const CLI::App* command : commands()) {
      for (const CLI::App* below : shown_commands(*command)) all.push_back(full_name(*below).substr(5));
    }
    return all;
  }

  int exit_code_ = 0;
  std::unique_ptr<CLI::App> program_ = make_program(exit_code_);
};

TEST_F(HelpText, EveryHelpFitsAndShowsEveryOption) {
  for (const CLI::App* command : commands()) {
    const Outcome help = run(command->get_name() + " --help");
    EXPECT_EQ(help.status, 0);
    EXPECT_EQ(run("help " + command->get_name()).out, help.out);
    EXPECT_EQ(run(command->get_name() + " -h").out, help.out);
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kHelpWidth) << line;
    for (const std::string& name : names(*command)) EXPECT_THAT(help.out, HasSubstr("--" + name));
    EXPECT_THAT(run("--help").out, HasSubstr("\n  " + command->get_name()));
  }
  EXPECT_EQ(run("help").out, run("--help").out);
  EXPECT_EQ(run("help chta").status, 2);
  EXPECT_THAT(run("help chta").err, HasSubstr("did you mean chat?"));
  EXPECT_EQ(run("-V").out, run("version").out);
  EXPECT_EQ(run("--version").out, run("version").out);
}

TEST_F(HelpText, NestedCommandsHaveHelpOfTheSameForm) {
  EXPECT_THAT(commands_of_commands(), testing::Contains("sessions export"));
  for (const std::string& name : commands_of_commands()) {
    const Outcome help = run(name + " --help");
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, testing::StartsWith("usage: ibid " + name + " [OPTIONS]"));
    EXPECT_EQ(run("help " + name).out, help.out);
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kHelpWidth) << line;
  }
  EXPECT_THAT(run("help sessions").out, HasSubstr("\nCommands:\n"));
  const Outcome unknown = run("help sessions shwo");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("unknown command 'ibid sessions shwo'; did you mean show?"));
  EXPECT_THAT(run("sessions shwo").err,
              HasSubstr("unknown command 'shwo'; did you mean show? (see `ibid sessions --help`)"));
  EXPECT_THAT(run("sessions export x --fromat json").err,
              HasSubstr("unknown option '--fromat'; did you mean --format? (see `ibid sessions export --help`)"));
}

TEST_F(HelpText, CommonOptionsComeFirst) {
  const std::string help = run("chat --help").out;
  const auto at = [&](const char* word) { return help.find(word); };
  EXPECT_LT(at("--model"), at("--resume"));
  EXPECT_LT(at("--resume"), at("Sampling:"));
  EXPECT_LT(at("Sampling:"), at("Sampling, rarely needed:"));
  EXPECT_LT(at("--temperature"), at("--xtc-threshold"));
}

TEST_F(HelpText, CompletionsListEveryCommandAndOption) {
  const std::string bash = bash_completion(*program_), zsh = zsh_completion(*program_);
  const std::string fish = fish_completion(*program_);
  for (const CLI::App* command : commands()) {
    const std::string& name = command->get_name();
    const std::string in_bash = bash.substr(bash.find("    " + name + ")\n"));
    const std::string in_zsh = zsh.substr(zsh.find("    " + name + ")\n"));
    for (const std::string& option : names(*command)) {
      EXPECT_THAT(in_bash.substr(0, in_bash.find(";;\n    ", in_bash.find("words='"))), HasSubstr("--" + option));
      EXPECT_THAT(in_zsh.substr(0, in_zsh.find(" ;;\n")), HasSubstr("--" + option + "'["));
      EXPECT_THAT(fish, testing::ContainsRegex("seen_subcommand_from " + name + "'.* -l " + option + " "));
    }
  }
  EXPECT_THAT(bash, HasSubstr("compgen -W 'f32 f16 int8 k8v4 int4'"));
  EXPECT_THAT(zsh, HasSubstr(":(error drop cut)"));
  EXPECT_THAT(fish, HasSubstr("-a 'reference exact fast'"));
}

TEST_F(HelpText, BashCompletionCompletesCommandsAndOptions) {
  const std::string script = dir_.write("ibid.bash", bash_completion(*program_));
  const auto complete = [&](const std::string& words, size_t current) {
    const std::string command = "bash -c 'source " + script + "; COMP_WORDS=(" + words +
                                "); COMP_CWORD=" + std::to_string(current) +
                                "; _ibid; printf \"%s \" \"${COMPREPLY[@]}\"' >" + dir_.file("out");
    EXPECT_EQ(std::system(command.c_str()), 0);
    return read_whole_file(dir_.file("out"));
  };
  EXPECT_EQ(complete("ibid insp", 1), "inspect ");
  EXPECT_EQ(complete("ibid chat --resu", 2), "--resume ");
  EXPECT_EQ(complete("ibid ask --kv k", 3), "k8v4 ");
  EXPECT_EQ(complete("ibid help ben", 2), "bench ");
  EXPECT_EQ(complete("ibid chat -m smol", 3), "smollm2 ");
  EXPECT_EQ(complete("ibid sessions sh", 2), "show ");
  EXPECT_EQ(complete("ibid sessions export --for", 3), "--format ");
}

TEST_F(HelpText, ManPagesShowEveryOption) {
  ASSERT_EQ(run("write-shell-files " + dir_.file("out")).status, 0);
  EXPECT_THAT(read_whole_file(dir_.file("out/man1/ibid.1")), HasSubstr("\\fBinspect\\fR"));
  EXPECT_EQ(read_whole_file(dir_.file("out/completions/_ibid")), zsh_completion(*program_));
  for (const CLI::App* command : commands()) {
    const std::string page = read_whole_file(dir_.file("out/man1/ibid-" + command->get_name() + ".1"));
    EXPECT_THAT(page, testing::StartsWith(".TH ibid\\-" + command->get_name() + " 1"));
    for (std::string name : names(*command)) {
      for (size_t i = 0; (i = name.find('-', i)) != std::string::npos; i += 2) name.insert(i, "\\");
      EXPECT_THAT(page, HasSubstr("\\-\\-" + name));
    }
  }
  const std::string sessions = read_whole_file(dir_.file("out/man1/ibid-sessions.1"));
  EXPECT_THAT(sessions, HasSubstr(".SH \"ibid sessions export\""));
  EXPECT_THAT(sessions, HasSubstr("\\-\\-format"));
  EXPECT_THAT(sessions, HasSubstr("ibid sessions rename [OPTIONS] OLD NEW"));
  EXPECT_EQ(run("write-shell-files /dev/null/x").status, 1);
  EXPECT_EQ(run("--help").out.find("write-shell-files"), std::string::npos);
}

TEST(Wrapped, BreaksAtBlanksOnly) {
  EXPECT_EQ(wrapped("one two three", 2, 9), "one two\n  three");
  EXPECT_EQ(wrapped("", 2, 9), "");
  EXPECT_EQ(wrapped("averylongwordindeed x", 0, 5), "averylongwordindeed\nx");
  EXPECT_EQ(wrapped("a\nb", 1, 9), "a\n b");
}

}  // namespace
}  // namespace ibid
