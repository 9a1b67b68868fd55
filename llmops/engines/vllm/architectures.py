"""Which architectures the releases of vLLM serve, as their registries say.

Made by tools/vllm_architectures.py from vllm/model_executor/models/registry.py of every release named here.
"""

from __future__ import annotations

from collections.abc import Mapping

RELEASES = (
    "0.8.5", "0.9.0", "0.9.0.1", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.1.1", "0.10.2", "0.11.0", "0.11.1",
    "0.11.2", "0.12.0", "0.13.0", "0.14.0", "0.14.1", "0.15.0", "0.15.1", "0.16.0", "0.17.0", "0.17.1", "0.18.0",
    "0.18.1", "0.19.0", "0.19.1", "0.20.0", "0.20.1", "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0", "0.24.0",
    "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0",
)  # fmt: skip
# What each release served that the one before it did not; the first, all that it served.
ADDED: Mapping[str, str] = {
    "0.8.5": (
        "AquilaForCausalLM AquilaModel ArcticForCausalLM AriaForConditionalGeneration "
        "AyaVisionForConditionalGeneration BaiChuanForCausalLM BaichuanForCausalLM BambaForCausalLM "
        "BartForConditionalGeneration BartModel BertForSequenceClassification BertModel Blip2ForConditionalGeneration "
        "BloomForCausalLM ChameleonForConditionalGeneration ChatGLMForConditionalGeneration ChatGLMModel "
        "Cohere2ForCausalLM CohereForCausalLM DbrxForCausalLM DeciLMForCausalLM DeepSeekMTPModel DeepseekForCausalLM "
        "DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekVLV2ForCausalLM EAGLEModel Eagle3LlamaForCausalLM "
        "EagleLlamaForCausalLM ExaoneForCausalLM Fairseq2LlamaForCausalLM FalconForCausalLM FalconMambaForCausalLM "
        "Florence2ForConditionalGeneration FuyuForCausalLM GLM4VForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM "
        "GPTJForCausalLM GPTNeoXForCausalLM Gemma2ForCausalLM Gemma2Model Gemma3ForCausalLM "
        "Gemma3ForConditionalGeneration GemmaForCausalLM Glm4ForCausalLM GlmForCausalLM GraniteForCausalLM "
        "GraniteMoeForCausalLM GraniteMoeSharedForCausalLM GraniteSpeechForConditionalGeneration GritLM "
        "Grok1ModelForCausalLM GteModel H2OVLChatModel Idefics3ForConditionalGeneration InternLM2ForCausalLM "
        "InternLM2ForRewardModel InternLM2VEForCausalLM InternLM3ForCausalLM InternLMForCausalLM InternVLChatModel "
        "JAISLMHeadModel JambaForCausalLM JambaForSequenceClassification KimiVLForConditionalGeneration "
        "LLaMAForCausalLM Llama4ForConditionalGeneration LlamaForCausalLM LlamaModel LlavaForConditionalGeneration "
        "LlavaNextForConditionalGeneration LlavaNextVideoForConditionalGeneration "
        "LlavaOnevisionForConditionalGeneration MLPSpeculatorPreTrainedModel MPTForCausalLM Mamba2ForCausalLM "
        "MambaForCausalLM MantisForConditionalGeneration MedusaModel MiniCPM3ForCausalLM MiniCPMForCausalLM MiniCPMO "
        "MiniCPMV MiniMaxText01ForCausalLM Mistral3ForConditionalGeneration MistralForCausalLM MistralModel "
        "MixtralForCausalLM MllamaForConditionalGeneration ModernBertForSequenceClassification MolmoForCausalLM "
        "MptForCausalLM NVLM_D NemotronForCausalLM NomicBertModel OPTForCausalLM Olmo2ForCausalLM OlmoForCausalLM "
        "OlmoeForCausalLM OrionForCausalLM PaliGemmaForConditionalGeneration PersimmonForCausalLM Phi3ForCausalLM "
        "Phi3SmallForCausalLM Phi3VForCausalLM Phi4MMForCausalLM PhiForCausalLM PhiMoEForCausalLM "
        "PixtralForConditionalGeneration Plamo2ForCausalLM PrithviGeoSpatialMAE QWenLMHeadModel "
        "QuantMixtralForCausalLM Qwen2AudioForConditionalGeneration Qwen2ForCausalLM Qwen2ForProcessRewardModel "
        "Qwen2ForRewardModel Qwen2ForSequenceClassification Qwen2Model Qwen2MoeForCausalLM "
        "Qwen2VLForConditionalGeneration Qwen2_5OmniModel Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM "
        "Qwen3MoeForCausalLM QwenVLForConditionalGeneration RWForCausalLM RobertaForMaskedLM "
        "RobertaForSequenceClassification RobertaModel SkyworkR1VChatModel SmolVLMForConditionalGeneration "
        "SolarForCausalLM StableLMEpochForCausalLM StableLmForCausalLM Starcoder2ForCausalLM TeleChat2ForCausalLM "
        "TeleFLMForCausalLM TransformersForCausalLM UltravoxModel WhisperForConditionalGeneration "
        "XLMRobertaForSequenceClassification XLMRobertaModel XverseForCausalLM Zamba2ForCausalLM"
    ),
    "0.9.0": (
        "FalconH1ForCausalLM GraniteMoeHybridForCausalLM GteNewModel MiMoForCausalLM MiMoMTPModel "
        "MiniMaxVL01ForConditionalGeneration ModernBertModel Ovis Qwen2_5OmniForConditionalGeneration"
    ),
    "0.9.1": "EagleMiniCPMForCausalLM NemotronHForCausalLM TarsierForConditionalGeneration",
    "0.9.2": (
        "Dots1ForCausalLM Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM GPT2ForSequenceClassification "
        "Gemma3nForConditionalGeneration Glm4vForConditionalGeneration HunYuanMoEV1ForCausalLM "
        "KeyeForConditionalGeneration MiniMaxM1ForCausalLM Qwen3ForSequenceClassification "
        "Tarsier2ForConditionalGeneration"
    ),
    "0.10.0": (
        "ArceeForCausalLM BailingMoeForCausalLM EagleLlama4ForCausalLM Exaone4ForCausalLM Glm4MoeForCausalLM "
        "Glm4MoeMTPModel HunYuanDenseV1ForCausalLM JinaVLForRanking Llama_Nemotron_Nano_VL MiniMaxForCausalLM "
        "Phi4FlashForCausalLM TransformersForMultimodalLM VoxtralForConditionalGeneration"
    ),
    "0.10.1": (
        "Cohere2VisionForConditionalGeneration Emu3ForConditionalGeneration Ernie4_5ForCausalLM Gemma3nForCausalLM "
        "Glm4vMoeForConditionalGeneration GptOssForCausalLM HCXVisionForCausalLM InternS1ForConditionalGeneration "
        "Llama4ForCausalLM MBartForConditionalGeneration Phi4MultimodalForCausalLM SmolLM3ForCausalLM "
        "Step3TextForCausalLM Step3VLForConditionalGeneration TransformersModel"
    ),
    "0.10.2": (
        "ApertusForCausalLM DonutForConditionalGeneration EagleDeepSeekMTPModel "
        "Ernie4_5_VLMoeForConditionalGeneration ErnieMTPModel Gemma3TextModel GteNewForSequenceClassification "
        "InternVLForConditionalGeneration KeyeVL1_5ForConditionalGeneration Lfm2ForCausalLM LlamaForCausalLMEagle3 "
        "MiDashengLMModel MotifForCausalLM NemotronH_Nano_VL Ovis2_5 Qwen3NextForCausalLM Qwen3NextMTP "
        "RForConditionalGeneration SeedOssForCausalLM Terratorch"
    ),
    "0.11.0": (
        "BailingMoeV2ForCausalLM BertForTokenClassification CwmForCausalLM DeepseekV32ForCausalLM DotsOCRForCausalLM "
        "LongCatFlashMTPModel LongcatFlashForCausalLM NemotronH_Nano_VL_V2 Olmo3ForCausalLM "
        "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration"
    ),
    "0.11.1": (
        "AfmoeForCausalLM BeeForConditionalGeneration BertSpladeSparseEmbeddingModel CLIPModel DeepseekOCRForCausalLM "
        "Eagle3Qwen2_5vlForCausalLM FlexOlmoForCausalLM KimiLinearForCausalLM Lfm2MoeForCausalLM "
        "LightOnOCRForConditionalGeneration MiniMaxM2ForCausalLM ModernBertForTokenClassification OpenPanguMTPModel "
        "OuroForCausalLM PaddleOCRVLForConditionalGeneration PanguEmbeddedForCausalLM PanguUltraMoEForCausalLM "
        "Qwen3OmniMoeForConditionalGeneration SiglipModel TransformersEmbeddingModel "
        "TransformersForSequenceClassification TransformersMoEEmbeddingModel TransformersMoEForCausalLM "
        "TransformersMoEForSequenceClassification TransformersMultiModalEmbeddingModel "
        "TransformersMultiModalForCausalLM TransformersMultiModalForSequenceClassification "
        "TransformersMultiModalMoEForCausalLM"
    ),
    "0.12.0": (
        "Eagle3Qwen3vlForCausalLM EagleMistralLarge3ForCausalLM HunYuanVLForConditionalGeneration "
        "MistralLarge3ForCausalLM OpenCUAForConditionalGeneration Plamo3ForCausalLM TeleChatForCausalLM"
    ),
    "0.13.0": "AudioFlamingo3ForConditionalGeneration BagelForConditionalGeneration Jais2ForCausalLM",
    "0.14.0": (
        "ExaoneMoEForCausalLM ExaoneMoeMTP GlmAsrForConditionalGeneration Grok1ForCausalLM IQuestCoderForCausalLM "
        "IQuestLoopCoderForCausalLM IsaacForConditionalGeneration KananaVForConditionalGeneration "
        "Lfm2VlForConditionalGeneration LlamaBidirectionalForSequenceClassification LlamaBidirectionalModel "
        "MiMoV2FlashForCausalLM NemotronParseForConditionalGeneration PanguProMoEV2ForCausalLM "
        "VoxtralStreamingGeneration"
    ),
    "0.15.0": (
        "BgeM3EmbeddingModel Eagle2_5_VLForConditionalGeneration Glm4MoeLiteForCausalLM Glm4MoeLiteMTPModel "
        "KimiK25ForConditionalGeneration Molmo2ForConditionalGeneration Step1ForCausalLM "
        "StepVLForConditionalGeneration"
    ),
    "0.15.1": "Step3p5ForCausalLM Step3p5MTP",
    "0.16.0": (
        "DeepseekOCR2ForCausalLM FunAudioChatForConditionalGeneration GlmMoeDsaForCausalLM "
        "GlmOcrForConditionalGeneration GlmOcrMTPModel HF_ColBERT InternS1ProForConditionalGeneration "
        "MusicFlamingoForConditionalGeneration NemotronHPuzzleForCausalLM OpenPanguVLForConditionalGeneration "
        "Qwen3ASRForConditionalGeneration VoxtralRealtimeGeneration VoyageQwen3BidirectionalEmbedModel"
    ),
    "0.17.0": (
        "AXK1ForCausalLM BailingMoeV2_5ForCausalLM ColBERTJinaRobertaModel ColBERTModernBertModel "
        "ColModernVBertForRetrieval ColQwen3 ExtractHiddenStatesModel FireRedASR2ForConditionalGeneration "
        "FunASRForConditionalGeneration LlamaNemotronVLForSequenceClassification LlamaNemotronVLModel "
        "NemotronHMTPModel OpsColQwen3Model Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM Qwen3ASRRealtimeGeneration "
        "Qwen3VLNemotronEmbedModel Qwen3_5ForConditionalGeneration Qwen3_5MTP Qwen3_5MoeForConditionalGeneration "
        "Qwen3_5MoeMTP"
    ),
    "0.18.0": (
        "ColPaliForRetrieval Eagle3DeepseekV2ForCausalLM Eagle3DeepseekV3ForCausalLM ErnieForSequenceClassification "
        "ErnieForTokenClassification ErnieModel HCXVisionV2ForCausalLM HyperCLOVAXForCausalLM "
        "MoonshotKimiaForCausalLM OlmoHybridForCausalLM SarvamMLAForCausalLM SarvamMoEForCausalLM"
    ),
    "0.19.0": (
        "CohereAsrForConditionalGeneration ColBERTLfm2Model ColQwen3_5 Gemma4ForCausalLM "
        "Gemma4ForConditionalGeneration Qwen3ASRForcedAlignerForTokenClassification"
    ),
    "0.20.0": (
        "Cheers CheersForConditionalGeneration DFlashDraftModel DeepSeekV4MTPModel DeepseekV4ForCausalLM "
        "Eagle3MiniMaxM2ForCausalLM Exaone4_5_ForConditionalGeneration Exaone4_5_MTP "
        "FireRedLIDForConditionalGeneration Granite4VisionForConditionalGeneration HYV3ForCausalLM HYV3MTPModel "
        "JinaEmbeddingsV5Model JinaForRanking Ministral3ForCausalLM NemotronH_Nano_Omni_Reasoning_V3 "
        "NemotronH_Super_Omni_Reasoning_V3 Param2MoEForCausalLM Phi4ForCausalLMV Rnj1ForCausalLM TeleChat3ForCausalLM"
    ),
    "0.21.0": (
        "Cohere2MoeForCausalLM EagleCohereForCausalLM EagleMistralForCausalLM Gemma4MTPModel HfMoondream "
        "LagunaForCausalLM MiMoV2ForCausalLM MiMoV2MTPModel MiMoV2OmniForCausalLM MiMoV2OmniMTPModel "
        "Moondream3ForCausalLM QianfanOCRForConditionalGeneration"
    ),
    "0.22.0": (
        "InternS2PreviewForConditionalGeneration MiniCPMV4_6ForConditionalGeneration OpenVLAForActionPrediction "
        "PEagleDraftModel PeagleLlamaForCausalLM"
    ),
    "0.22.1": "MellumForCausalLM",
    "0.23.0": (
        "Cosmos3ForConditionalGeneration Gemma4UnifiedForConditionalGeneration "
        "GraniteSpeechPlusForConditionalGeneration Step3p7ForConditionalGeneration"
    ),
    "0.24.0": (
        "DiffusionGemmaForBlockDiffusion Eagle3Qwen3ForCausalLM HrmTextForCausalLM MiniMaxM3MTP "
        "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration MossAudioModel PeagleQwen3ForCausalLM"
    ),
    "0.25.0": (
        "BailingMoeV25MTPModel DFlashLagunaForCausalLM DSparkDraftModel LlavaOnevision2ForConditionalGeneration "
        "MossTranscribeDiarizeForConditionalGeneration OpenAIPrivacyFilterForTokenClassification Qwen3DSparkModel "
        "UnlimitedOCRForCausalLM"
    ),
    "0.26.0": (
        "BertForMaskedLM Cosmos3EdgeForConditionalGeneration Gemma4DSparkModel InklingForCausalLM "
        "InklingForConditionalGeneration InklingMTPModel LongcatFlashNgramForCausalLM RobertaForTokenClassification "
        "XLMRobertaForTokenClassification"
    ),
    "0.27.0": (
        "ExaoneMoeForCausalLM K3DSparkModel KimiK3ForConditionalGeneration KimiK3MTPModel Qwen3_5ForCausalLM "
        "Qwen3_5MoeForCausalLM VaultGemmaForCausalLM VibeVoiceAsrForConditionalGeneration"
    ),
    "0.28.0": (
        "BailingMoeV3ForCausalLM BailingMoeV3MTPModel DFlash2DraftModel DFlashMuseGlimmerAssistantModel "
        "Dots3NoteForCausalLM Dots3NoteMTPModel InternS2MobiusForConditionalGeneration InternS2MobiusMTP "
        "MuseGlimmerAssistantModel MuseGlimmerForCausalLM MuseGlimmerForConditionalGeneration"
    ),
    "0.29.0": (
        "DeepseekV32MTPModel DeepseekV3BidirectionalModel GraniteMoeSWAForCausalLM GraniteSWAForCausalLM "
        "HYV4ForCausalLM HYV4MTPModel NemotronH_Omni_Reasoning_V3 Qwen3OmniDSparkModel Qwen4ExpForCausalLM "
        "Qwen4ExpForConditionalGeneration Qwen4ExpMTP"
    ),
    "0.30.0": (
        "BailingMoeV3VLForConditionalGeneration CohereCompassForConditionalGeneration DSparkV41DraftModel "
        "DeepseekV41ForCausalLM DeepseekV4ForConditionalGeneration Glm5NextForCausalLM "
        "Glm5NextForConditionalGeneration Glm5NextMTPModel K2HorizonForCausalLM NanbeigeForCausalLM"
    ),
    "0.31.0": "LiLiCorrDraftModel",
    "0.32.0": "ClefOmniForJointSchema EmbeddingGemma2Model ExaoneMoEForCausalLM MiniCPMV4_7ForConditionalGeneration",
    "0.33.0": (
        "AliceAIForCausalLM Alpamayo2Super BeamForCausalLM ClefFlashForJointSchema ColUltraVBertForRetrieval "
        "D3ForSequenceClassification DFlash2BeamDraftModel DFlashQwen3XPressModel DomynEdgeForCausalLM "
        "DoryForCausalLM FlintForCausalLM Kolibri1ForCausalLM Lfm2BidirectionalModel "
        "MiniCPMOcrForConditionalGeneration ModernVBertModel MuseSparkDSparkModel MuseSparkForConditionalGeneration "
        "ParseAuxMTPModel Qwen3XPressModel RadioMBartPrefixForCausalLM Step5ForCausalLM Step5ForConditionalGeneration "
        "Step5MTP TransformersForMTP TransformersMoEForMTP"
    ),
}
# What each release no longer served.
DROPPED: Mapping[str, str] = {
    "0.10.0": (
        "EAGLEModel MLPSpeculatorPreTrainedModel Phi3SmallForCausalLM Qwen2ForSequenceClassification "
        "Qwen3ForSequenceClassification"
    ),
    "0.10.1": "Ernie4_5_ForCausalLM",
    "0.10.2": "QuantMixtralForCausalLM",
    "0.11.0": (
        "BartForConditionalGeneration BartModel DonutForConditionalGeneration Florence2ForConditionalGeneration "
        "MBartForConditionalGeneration MllamaForConditionalGeneration NemotronH_Nano_VL Phi4FlashForCausalLM"
    ),
    "0.11.1": "MotifForCausalLM TransformersForMultimodalLM TransformersModel",
    "0.13.0": "Phi4MultimodalForCausalLM",
    "0.16.0": "VoxtralStreamingGeneration",
    "0.23.0": "JAISLMHeadModel",
    "0.24.0": (
        "BambaForCausalLM Dots1ForCausalLM ErnieForSequenceClassification ErnieForTokenClassification ErnieModel "
        "InternLM2VEForCausalLM InternLMForCausalLM MiniMaxForCausalLM MiniMaxM1ForCausalLM MiniMaxText01ForCausalLM "
        "MiniMaxVL01ForConditionalGeneration QWenLMHeadModel QwenVLForConditionalGeneration XverseForCausalLM"
    ),
    "0.25.0": (
        "AquilaForCausalLM AquilaModel AyaVisionForConditionalGeneration BaiChuanForCausalLM BaichuanForCausalLM "
        "Grok1ForCausalLM Grok1ModelForCausalLM MantisForConditionalGeneration MusicFlamingoForConditionalGeneration "
        "Tarsier2ForConditionalGeneration TarsierForConditionalGeneration"
    ),
    "0.26.0": "FuyuForCausalLM PersimmonForCausalLM TeleChatForCausalLM",
    "0.27.0": "ExaoneMoEForCausalLM OuroForCausalLM Plamo2ForCausalLM",
    "0.29.0": (
        "ArcticForCausalLM ChameleonForConditionalGeneration Cheers CheersForConditionalGeneration "
        "Fairseq2LlamaForCausalLM FireRedLIDForConditionalGeneration GritLM HCXVisionForCausalLM MPTForCausalLM "
        "MptForCausalLM PrithviGeoSpatialMAE RWForCausalLM StableLMEpochForCausalLM"
    ),
    "0.33.0": "MedusaModel",
}
# What the newest release names a plugin for.
BY_PLUGINS: Mapping[str, str] = {
    "BartForConditionalGeneration": "https://github.com/vllm-project/bart-plugin",
    "BartModel": "https://github.com/vllm-project/bart-plugin",
    "Florence2ForConditionalGeneration": "https://github.com/vllm-project/bart-plugin",
    "MBartForConditionalGeneration": "https://github.com/vllm-project/bart-plugin",
    "Nemotron3_5AsrForRNNT": "https://github.com/Sohaib-Ahmed21/vllm-nemotron-asr-plugin",
}
