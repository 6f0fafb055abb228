package models

import (
	"fmt"
	"iter"
	"strings"
)

// Tensors are known by the names of Mistral's consolidated.safetensors, whatever the file's layout; matrices are
// [out, in], and rows of q and k come in interleaved order (rotary pairs adjacent).
const (
	embedding = "mm_streams_embeddings.embedding_module."
	whisper   = embedding + "whisper_encoder."

	TokEmbeddings = embedding + "tok_embeddings.weight"              // [vocab, decoder dim], also the LM head
	Adapter0      = embedding + "audio_language_projection.0.weight" // [decoder dim, downsample × encoder dim]
	Adapter2      = embedding + "audio_language_projection.2.weight" // [decoder dim, decoder dim]
	EncoderNorm   = whisper + "transformer.norm.weight"              // [encoder dim]
	Conv0         = whisper + "conv_layers.0.conv.weight"            // [encoder dim, mel bins × 3]
	Conv0Bias     = whisper + "conv_layers.0.conv.bias"              // [encoder dim]
	Conv1         = whisper + "conv_layers.1.conv.weight"            // [encoder dim, encoder dim × 3]
	Conv1Bias     = whisper + "conv_layers.1.conv.bias"              // [encoder dim]
	DecoderNorm   = "norm.weight"                                    // [decoder dim]
)

// Names within a layer, for EncoderLayer and DecoderLayer.
const (
	AttentionNorm = "attention_norm.weight"        // [dim]
	WQ            = "attention.wq.weight"          // [heads × head dim, dim]
	WQBias        = "attention.wq.bias"            // encoder only
	WK            = "attention.wk.weight"          // [KV heads × head dim, dim]
	WV            = "attention.wv.weight"          // [KV heads × head dim, dim]
	WVBias        = "attention.wv.bias"            // encoder only
	WO            = "attention.wo.weight"          // [dim, heads × head dim]
	WOBias        = "attention.wo.bias"            // encoder only
	FFNNorm       = "ffn_norm.weight"              // [dim]
	W1            = "feed_forward.w1.weight"       // gate [hidden, dim]
	W2            = "feed_forward.w2.weight"       // down [dim, hidden]
	W2Bias        = "feed_forward.w2.bias"         // encoder only
	W3            = "feed_forward.w3.weight"       // up [hidden, dim]
	Ada0          = "ada_rms_norm_t_cond.0.weight" // [ada dim, dim], decoder only
	Ada2          = "ada_rms_norm_t_cond.2.weight" // [dim, ada dim], decoder only
)

// EncoderLayer is the full name of a tensor of encoder layer i.
func EncoderLayer(i int, name string) string {
	return fmt.Sprintf("%stransformer.layers.%d.%s", whisper, i, name)
}

// DecoderLayer is the full name of a tensor of decoder layer i.
func DecoderLayer(i int, name string) string { return fmt.Sprintf("layers.%d.%s", i, name) }

// spec is a tensor that a checkpoint must have.
type spec struct {
	name  string
	hf    string // as published by Hugging Face
	shape []int
	head  int // rows of one rotary head, 0 if the rows are not permuted between the layouts
}

// specs lists every tensor of a model, in the order of use.
func specs(c *Config) iter.Seq[spec] {
	e, d := &c.Encoder, &c.Decoder
	return func(yield func(spec) bool) {
		fixed := []spec{
			{Conv0, "audio_tower.embedder.conv1.weight", []int{e.Dim, e.MelBins, 3}, 0},
			{Conv0Bias, "audio_tower.embedder.conv1.bias", []int{e.Dim}, 0},
			{Conv1, "audio_tower.embedder.conv2.weight", []int{e.Dim, e.Dim, 3}, 0},
			{Conv1Bias, "audio_tower.embedder.conv2.bias", []int{e.Dim}, 0},
			{EncoderNorm, "audio_tower.norm.weight", []int{e.Dim}, 0},
			{Adapter0, "multi_modal_projector.linear_1.weight", []int{d.Dim, e.Downsample * e.Dim}, 0},
			{Adapter2, "multi_modal_projector.linear_2.weight", []int{d.Dim, d.Dim}, 0},
			{TokEmbeddings, "language_model.model.embed_tokens.weight", []int{d.Vocab, d.Dim}, 0},
			{DecoderNorm, "language_model.model.norm.weight", []int{d.Dim}, 0},
		}
		for _, s := range fixed {
			if !yield(s) {
				return
			}
		}
		q, kv := e.Heads*e.HeadDim, e.KVHeads*e.HeadDim
		layer := []spec{
			{AttentionNorm, "self_attn_layer_norm.weight", []int{e.Dim}, 0},
			{WQ, "self_attn.q_proj.weight", []int{q, e.Dim}, e.HeadDim},
			{WQBias, "self_attn.q_proj.bias", []int{q}, e.HeadDim},
			{WK, "self_attn.k_proj.weight", []int{kv, e.Dim}, e.HeadDim},
			{WV, "self_attn.v_proj.weight", []int{kv, e.Dim}, 0},
			{WVBias, "self_attn.v_proj.bias", []int{kv}, 0},
			{WO, "self_attn.o_proj.weight", []int{e.Dim, q}, 0},
			{WOBias, "self_attn.o_proj.bias", []int{e.Dim}, 0},
			{FFNNorm, "final_layer_norm.weight", []int{e.Dim}, 0},
			{W1, "mlp.gate_proj.weight", []int{e.Hidden, e.Dim}, 0},
			{W3, "mlp.up_proj.weight", []int{e.Hidden, e.Dim}, 0},
			{W2, "mlp.down_proj.weight", []int{e.Dim, e.Hidden}, 0},
			{W2Bias, "mlp.down_proj.bias", []int{e.Dim}, 0},
		}
		for i := range e.Layers {
			for _, s := range layer {
				s.name, s.hf = EncoderLayer(i, s.name), fmt.Sprintf("audio_tower.layers.%d.%s", i, s.hf)
				if !yield(s) {
					return
				}
			}
		}
		q, kv = d.Heads*d.HeadDim, d.KVHeads*d.HeadDim
		layer = []spec{
			{AttentionNorm, "input_layernorm.weight", []int{d.Dim}, 0},
			{WQ, "self_attn.q_proj.weight", []int{q, d.Dim}, d.HeadDim},
			{WK, "self_attn.k_proj.weight", []int{kv, d.Dim}, d.HeadDim},
			{WV, "self_attn.v_proj.weight", []int{kv, d.Dim}, 0},
			{WO, "self_attn.o_proj.weight", []int{d.Dim, q}, 0},
			{FFNNorm, "post_attention_layernorm.weight", []int{d.Dim}, 0},
			{W1, "mlp.gate_proj.weight", []int{d.Hidden, d.Dim}, 0},
			{W3, "mlp.up_proj.weight", []int{d.Hidden, d.Dim}, 0},
			{W2, "mlp.down_proj.weight", []int{d.Dim, d.Hidden}, 0},
			{Ada0, hfAda0, []int{d.AdaDim, d.Dim}, 0},
			{Ada2, "ada_rms_norm.linear2.weight", []int{d.Dim, d.AdaDim}, 0},
		}
		for i := range d.Layers {
			for _, s := range layer {
				s.name, s.hf = DecoderLayer(i, s.name), fmt.Sprintf("language_model.model.layers.%d.%s", i, s.hf)
				if !yield(s) {
					return
				}
			}
		}
	}
}

const hfAda0 = "ada_rms_norm.linear1.weight"

// naming turns published Hugging Face names into those of one file. Newer transformers nest everything under "model.",
// where the text model loses its own "model." level and the LM head comes first.
type naming struct {
	nested bool
}

const nestedPrefix = "model."

func (n naming) file(published string) string {
	if !n.nested {
		return published
	}
	if rest, ok := strings.CutPrefix(published, "language_model.model."); ok {
		return nestedPrefix + "language_model." + rest
	}
	return nestedPrefix + published
}

// isHead recognises the LM head, which is tied to the embeddings and may be left out.
func (n naming) isHead(name string) bool {
	return name == "lm_head.weight" || !n.nested && name == "language_model.lm_head.weight"
}

// isDerived recognises constants of the rotary and time embeddings that some exports store; they are computed here.
func isDerived(name string) bool { return strings.HasSuffix(name, ".inv_freq") }
