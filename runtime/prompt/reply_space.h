// Some templates put a space in front of an answer ("[/INST] Sure") that the model has said itself. A tokenizer of
// SentencePiece's shows the first token of a text without its space. So the id that is written " Sure" gives the
// answer "Sure", and the template writes it as " Sure" again. Such a space belongs to the ids that were sampled. If
// it were taken for text of the template, the whole answer would be another text. Pure functions.
#pragma once

#include <cstddef>

#include "runtime/prompt/transcript.h"
#include "templates/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

enum class ReplySpace {
  kNone,       // template or tokenizer does not do this
  kInPlace,    // the template takes away white space that an answer begins with, and puts the space in its place
  kInFront,    // the template puts it in front of whatever an answer begins with
};

// Three short renders at most; kNone where the template refuses them.
ReplySpace find_reply_space(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                            const TemplateVariables& variables);

// Adds to a patch the space in front of a reply whose first id is written with one, as text without ids of its own.
// `mark`, the encoder at the end of the patch, stands behind the space afterwards. Adds nothing if the space would
// change the ids in front of it.
void append_reply_space(ReplySpace kind, const Tokenizer& tokenizer, const SampledReply& reply, size_t message,
                        TranscriptPatch& patch, EncoderMark& mark);

}  // namespace ibid
