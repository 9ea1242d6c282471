// A text in the user's own editor: $VISUAL, else $EDITOR, else vi.
#pragma once

#include <string>

#include "base/result.h"

namespace ibid {

// The text as the editor leaves it, without the newlines at its end. It passes through a temporary file that
// is the user's alone (0600) and removed afterwards. The terminal must be as it was found. Errors: kIo;
// kInvalidArgument when the editor failed, and then nothing was changed, or left something that is no text.
Result<std::string> edit_externally(const std::string& text);

}  // namespace ibid
