// Reads off the form of calls: given the texts that a template wrote for known calls, says what stands around names,
// ids and arguments. Pure functions; they know no template.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "templates/reply/reply_format.h"

namespace ibid {

// The calls that were rendered. Their words are such as no template holds.
namespace probe {
inline constexpr std::string_view kTool = "kestrel_tool";
inline constexpr std::string_view kOtherTool = "kestrel_other_tool";
inline constexpr std::string_view kId = "kestrel01";  // nine letters and digits: Mistral's templates want that
inline constexpr std::string_view kOtherId = "kestrel02";
// The arguments of both calls. Keys in the order of the alphabet, because some templates sort them.
inline constexpr std::string_view kArguments =
    R"({"kcount": 4711, "kflag": true, "klist": ["Kestrelitem"], "kplace": "Kestrelplace", "kzone": "Kestrelzone"})";
}  // namespace probe

// What a template wrote as an answer.
struct WrittenCalls {
  std::string one;             // an answer with one call, of kTool, up to the end of the text
  std::optional<std::string> two = {};  // an answer with that call, and behind it one of kOtherTool
  // What ends an answer without calls; whatever begins with its first word is not the calls'.
  std::string end_of_answer = {};
};

// Nothing: the text does not show name and arguments in a form that is known.
std::optional<CallSyntax> read_off_calls(const WrittenCalls& written);

}  // namespace ibid
