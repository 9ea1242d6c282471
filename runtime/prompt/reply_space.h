// Some templates write a space before an answer ("[/INST] Sure") that the model has sampled itself. SentencePiece
// tokenizers show the first token of a text without its space: the token " Sure" gives the answer "Sure", and the
// template writes " Sure" again. Such a space belongs to the sampled tokens; as text of the template it would change
// the whole answer. Pure functions.
#pragma once

#include <cstddef>

#include "runtime/prompt/transcript.h"
#include "templates/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

enum class ReplySpace {
  kNone,     // the template or tokenizer adds no such space
  kInPlace,  // the template replaces white space at the beginning of an answer by the space
  kInFront,  // the template adds the space before any answer
};

// Takes at most three short renders; kNone if the template rejects them.
ReplySpace find_reply_space(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                            const TemplateVariables& variables);

// Adds to a patch the space before a reply whose first token is written with a space, as text without tokens of its
// own. Moves `mark`, the encoder at the end of the patch, after the space. Adds nothing if the space would change the
// tokens before it.
void append_reply_space(ReplySpace kind, const Tokenizer& tokenizer, const SampledReply& reply, size_t message,
                        TranscriptPatch& patch, EncoderMark& mark);

}  // namespace ibid
