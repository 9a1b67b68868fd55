"""The text of /metrics as vLLM 0.32.0 wrote it on a processor, cut down to what is read."""

# After eight requests of 113 + 1,800 tokens through a cache of 24 blocks with the default --max-num-seqs.
AFTER_PREEMPTIONS = """\
# HELP python_info Python platform information
# TYPE python_info gauge
python_info{implementation="CPython",major="3",minor="11",patchlevel="7",version="3.11.7"} 1.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 0.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.0
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 904.0
vllm:prefix_cache_queries_created{engine="0",model_name="tiny"} 1.7959945328634193e+09
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 0.0
vllm:num_preemptions_total{engine="0",model_name="tiny"} 18.0
vllm:num_preemptions_created{engine="0",model_name="tiny"} 1.7959945328634865e+09
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 904.0
vllm:generation_tokens_total{engine="0",model_name="tiny"} 14400.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 0.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 8.0
vllm:admission_rejections_total{model_name="tiny",reason="max_num_queued_reqs"} 0.0
vllm:admission_rejections_total{model_name="tiny",reason="max_num_queued_tokens"} 0.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.08",model_name="tiny"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.25",model_name="tiny"} 8.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="tiny"} 8.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="tiny"} 8.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="tiny"} 0.9144010543823242
vllm:request_queue_time_seconds_count{engine="0",model_name="tiny"} 8.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="tiny"} 0.0003193370005192264
vllm:request_prefill_time_seconds_count{engine="0",model_name="tiny"} 8.0
vllm:request_prefill_time_seconds_sum{engine="0",model_name="tiny"} 0.2833759740003643
vllm:request_decode_time_seconds_count{engine="0",model_name="tiny"} 8.0
vllm:request_decode_time_seconds_sum{engine="0",model_name="tiny"} 184.42241411499958
vllm:inter_token_latency_seconds_count{engine="0",model_name="tiny"} 14392.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="tiny"} 184.42241411499958
vllm:cache_config_info{_block_size_resolved="True",block_size="128",cache_dtype="auto",enable_prefix_caching="True",\
engine="0",gpu_memory_utilization="0.92",kv_cache_dtype_skip_layers="[]",kv_cache_max_concurrency="1.5",\
kv_cache_memory_bytes="6291456",kv_cache_size_tokens="3072",num_cpu_blocks="None",num_gpu_blocks="24",\
num_gpu_blocks_override="None",sliding_window="None"} 1.0
http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 8.0
"""

# The names of 0.8.5; its labels tell no tokens.
OLD_NAMES = """\
vllm:num_requests_running{model_name="tiny"} 2.0
vllm:num_requests_waiting{model_name="tiny"} 1.0
vllm:gpu_cache_usage_perc{model_name="tiny"} 0.75
vllm:gpu_prefix_cache_queries_total{model_name="tiny"} 100.0
vllm:gpu_prefix_cache_hits_total{model_name="tiny"} 64.0
vllm:num_preemptions_total{model_name="tiny"} 3.0
vllm:time_per_output_token_seconds_count{model_name="tiny"} 10.0
vllm:time_per_output_token_seconds_sum{model_name="tiny"} 0.5
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="None",gpu_memory_utilization="0.9",\
num_gpu_blocks="1234"} 1.0
"""
