-- A small ledger as version 0001 of the schema held it, written by the program of that time through its command line:
-- three nodes, two rates, four pieces of evidence one of which was revised, two jobs, six revisions with their chain.
-- pg_dump --data-only --inserts, without its settings.

INSERT INTO public.cause VALUES
	('accelerator/gpu_firmware', 'GPU firmware fault', 32, false, 'hardware'),
	('accelerator/gpu_hang', 'GPU stopped answering its work', 32, false, 'hardware'),
	('accelerator/gpu_off_bus', 'GPU fell off the bus', 30, false, 'hardware'),
	('accelerator/gsp_timeout', 'GPU system processor timed out', 31, false, 'hardware'),
	('accelerator/hbm_correctable_storm', 'Storm of corrected memory errors', 33, false, 'hardware'),
	('accelerator/hbm_row_remap_failure', 'Row remapping failed', 31, false, 'hardware'),
	('accelerator/hbm_row_remap_pending', 'Row remap waits for a reset', 32, false, 'hardware'),
	('accelerator/hbm_uncorrectable', 'Uncorrectable GPU memory error', 31, false, 'hardware'),
	('accelerator/silent_data_corruption', 'Silent data corruption', 34, false, 'hardware'),
	('accelerator/sram_uncorrectable', 'Uncorrectable SRAM error', 31, false, 'hardware'),
	('accelerator/unspecified', 'GPU fault, kind not stated by the source', 34, false, 'hardware'),
	('capacity/awaiting_parts', 'Waiting for spare parts', 5, false, 'capacity'),
	('capacity/stranded', 'Installed without power, cooling or network', 5, false, 'capacity'),
	('change/bad_config', 'Bad configuration change', 60, false, 'platform'),
	('cooling/domain_cooling_loss', 'Cooling lost in a rack or row', 10, false, 'facility'),
	('cooling/gpu_thermal', 'GPU runs too hot', 14, false, 'facility'),
	('fabric/congestion', 'Network congestion', 43, false, 'fabric'),
	('fabric/nic', 'Network adapter fault', 42, false, 'fabric'),
	('fabric/nvlink', 'NVLink fault', 40, false, 'fabric'),
	('fabric/nvlink_c2c', 'CPU to GPU link fault', 41, false, 'fabric'),
	('fabric/nvswitch', 'NVSwitch or fabric manager fault', 40, false, 'fabric'),
	('fabric/switch_or_cable', 'Network switch or cable fault', 40, false, 'fabric'),
	('facility/data_hall_power_loss', 'Data hall lost power', 10, false, 'facility'),
	('host/chassis', 'Chassis, board or riser fault', 25, false, 'hardware'),
	('host/cpu_or_mce', 'CPU or machine check fault', 21, false, 'hardware'),
	('host/dram', 'Host memory fault', 21, false, 'hardware'),
	('host/host_oom', 'Host ran out of memory', 24, false, 'hardware'),
	('host/kernel_panic_or_reboot', 'Kernel panic or surprise reboot', 21, false, 'hardware'),
	('host/local_disk', 'Local disk fault', 23, false, 'hardware'),
	('host/node_unreachable', 'Node unreachable', 20, false, 'hardware'),
	('host/pcie', 'PCIe link fault', 22, false, 'hardware'),
	('host/unspecified', 'Server hardware fault, part not stated by the source', 25, false, 'hardware'),
	('operations/cold_start', 'Cold start', 65, false, 'operations'),
	('operations/planned_maintenance', 'Planned maintenance', 64, false, 'operations'),
	('operations/unplanned_maintenance', 'Maintenance without a window', 64, false, 'operations'),
	('platform/dependency', 'Registry, DNS, login or clock service failed', 63, false, 'platform'),
	('platform/monitoring_gap', 'Nobody was watching', 63, false, 'platform'),
	('platform/scheduler_outage', 'Scheduler outage', 62, false, 'platform'),
	('power/gpu_power_delivery', 'GPU board power missing', 12, false, 'facility'),
	('power/power_brake', 'Hardware power brake', 10, false, 'facility'),
	('power/power_cap', 'Power cap slows GPUs', 12, false, 'facility'),
	('power/power_smoothing', 'Power smoothing fault', 13, false, 'facility'),
	('power/psu', 'Power supply failed', 11, false, 'facility'),
	('scheduling/fragmentation', 'Free GPUs in the wrong places', 67, false, 'scheduling'),
	('scheduling/preemption', 'Preempted by other work', 66, false, 'scheduling'),
	('serving/kv_cache_exhaustion', 'KV cache exhausted', 74, false, 'serving'),
	('serving/quality_regression', 'Answers got worse', 75, false, 'serving'),
	('serving/queue_collapse', 'Request queue collapsed', 74, false, 'serving'),
	('software/driver_firmware', 'Driver or firmware regression', 61, false, 'platform'),
	('software/unspecified', 'Software fault, component not stated by the source', 61, false, 'platform'),
	('storage/checkpoint_stall', 'Checkpoint writes stall', 52, false, 'storage'),
	('storage/filesystem_outage', 'File system outage', 50, false, 'storage'),
	('storage/full_or_quota', 'Storage full or over quota', 54, false, 'storage'),
	('storage/mount_missing', 'Mount missing on some nodes', 51, false, 'storage'),
	('storage/object_store', 'Object store errors', 53, false, 'storage'),
	('storage/slow_read', 'Slow reads starve the job', 52, false, 'storage'),
	('symptom/collective_timeout', 'Collective operation hangs', 90, true, 'operations'),
	('unknown/unattributed', 'No cause found', 99, false, 'operations'),
	('workload/cuda_exception', 'CUDA exception in the job', 70, false, 'workload'),
	('workload/framework_bug', 'Framework bug', 71, false, 'workload'),
	('workload/gpu_oom', 'GPU memory exhausted by the job', 71, false, 'workload'),
	('workload/idle_allocation', 'Allocated but idle', 73, false, 'workload'),
	('workload/script_error', 'Error in the job''s script', 71, false, 'workload'),
	('workload/straggler', 'One rank slows the rest', 72, false, 'workload');

INSERT INTO public.gpu OVERRIDING SYSTEM VALUE VALUES
	(1, 'B200', NULL, NULL),
	(2, 'B200', NULL, NULL),
	(3, 'B200', NULL, NULL),
	(4, 'B200', NULL, NULL),
	(5, 'H100', NULL, NULL),
	(6, 'H100', NULL, NULL),
	(7, 'H100', NULL, NULL),
	(8, 'H100', NULL, NULL),
	(9, 'H100', NULL, NULL),
	(10, 'H100', NULL, NULL),
	(11, 'H100', NULL, NULL),
	(12, 'H100', NULL, NULL);

INSERT INTO public.place OVERRIDING SYSTEM VALUE VALUES
	(1, 'site', NULL, 's', 1, 'America/New_York', NULL, NULL, NULL),
	(2, 'hall', 1, 'h', 1, NULL, NULL, NULL, NULL),
	(3, 'rack', 2, 'q', 1, NULL, NULL, NULL, NULL),
	(4, 'rack', 2, 'r', 1, NULL, NULL, NULL, NULL),
	(5, 'node', 3, 'n3', 1, NULL, NULL, NULL, NULL),
	(6, 'node', 4, 'n1', 1, NULL, NULL, NULL, NULL),
	(7, 'node', 4, 'n2', 1, NULL, NULL, NULL, NULL);

INSERT INTO public.place_extent VALUES
	(1, '{[0,8),[16,32)}', '[1,)', DEFAULT),
	(2, '{[0,8),[16,32)}', '[1,)', DEFAULT),
	(3, '{[0,8)}', '[1,)', DEFAULT),
	(5, '{[0,8)}', '[1,)', DEFAULT),
	(4, '{[16,32)}', '[1,)', DEFAULT),
	(6, '{[16,24)}', '[1,)', DEFAULT),
	(7, '{[24,32)}', '[1,)', DEFAULT);

INSERT INTO public.tenure OVERRIDING SYSTEM VALUE VALUES
	(1, 1, 0, '["2026-03-07 05:00:00+00",)', true, '[1,)', DEFAULT, DEFAULT),
	(2, 2, 1, '["2026-03-07 05:00:00+00",)', true, '[1,)', DEFAULT, DEFAULT),
	(3, 3, 2, '["2026-03-07 05:00:00+00",)', true, '[1,)', DEFAULT, DEFAULT),
	(4, 4, 3, '["2026-03-07 05:00:00+00",)', true, '[1,)', DEFAULT, DEFAULT),
	(5, 5, 16, '["2026-03-06 05:00:00+00",)', false, '[1,)', DEFAULT, DEFAULT),
	(6, 6, 17, '["2026-03-06 05:00:00+00",)', false, '[1,)', DEFAULT, DEFAULT),
	(7, 7, 18, '["2026-03-06 05:00:00+00",)', false, '[1,)', DEFAULT, DEFAULT),
	(8, 8, 19, '["2026-03-06 05:00:00+00",)', false, '[1,)', DEFAULT, DEFAULT),
	(9, 9, 24, '["2026-03-06 05:00:00+00","2026-03-09 04:00:00+00")', false, '[1,)', DEFAULT, DEFAULT),
	(10, 10, 25, '["2026-03-06 05:00:00+00","2026-03-09 04:00:00+00")', false, '[1,)', DEFAULT, DEFAULT),
	(11, 11, 26, '["2026-03-06 05:00:00+00","2026-03-09 04:00:00+00")', false, '[1,)', DEFAULT, DEFAULT),
	(12, 12, 27, '["2026-03-06 05:00:00+00","2026-03-09 04:00:00+00")', false, '[1,)', DEFAULT, DEFAULT);

INSERT INTO public.evidence OVERRIDING SYSTEM VALUE VALUES
	(2, 'ops', '2', 1, 'rack:r', '{[16,32)}', '2026-03-07 01:00:00+00', '2026-03-07 04:30:00.25+00', 'degraded', 'fabric/nic', 250000, NULL, NULL, 'measured', '[3,)'),
	(1, 'ops', '1', 1, 'n1', '{[16,20)}', '2026-03-06 05:00:00+00', '2026-03-08 02:00:00+00', 'down', 'host/dram', NULL, NULL, NULL, 'measured', '[3,5)'),
	(3, 'ops', '1', 2, 'n1', '{[16,20)}', '2026-03-06 05:00:00+00', '2026-03-08 09:00:00+00', 'down', 'host/dram', NULL, NULL, NULL, 'measured', '[5,)'),
	(4, 'ops', '3', 1, 'n1', '{[16,20)}', '2026-03-08 08:00:00+00', '2026-03-08 10:00:00+00', 'down', 'host/dram', NULL, NULL, NULL, 'measured', '[5,)');

INSERT INTO public.allocation OVERRIDING SYSTEM VALUE VALUES
	(1, 'j1', 1, 'red', 'training', NULL, 'n1+n2', '{[16,20),[24,28)}', '2026-03-06 00:00:00+00', '2026-03-08 00:00:00+00', '[4,)'),
	(2, 'j2', 1, 'blue', 'inference', NULL, 'n2', '{[24,28)}', '2026-03-07 12:00:00+00', '2026-03-08 15:00:00+00', '[4,)');

INSERT INTO public.incident OVERRIDING SYSTEM VALUE VALUES
	(1, NULL, NULL),
	(2, NULL, NULL);

INSERT INTO public.incident_evidence VALUES
	(2, 2, '[3,)', DEFAULT),
	(1, 1, '[3,5)', DEFAULT),
	(1, 3, '[5,)', DEFAULT),
	(1, 4, '[5,)', DEFAULT);

INSERT INTO public.incident_cause VALUES
	(1, 'host/dram', false, 'charged', 'rules', 'stated by its evidence', '[3,)', DEFAULT),
	(2, 'fabric/nic', false, 'charged', 'rules', 'stated by its evidence', '[3,)', DEFAULT);

INSERT INTO public.ledger_entry OVERRIDING SYSTEM VALUE VALUES
	(5, '[0,4)', '["2026-03-07 05:00:00+00","2026-03-08 00:00:00+00")', '[1,)', 'stranded', 1000000, 'capacity/stranded', NULL, NULL, NULL, 'measured', 'claim'),
	(6, '[0,4)', '["2026-03-08 00:00:00+00","2026-03-09 00:00:00+00")', '[1,)', 'stranded', 1000000, 'capacity/stranded', NULL, NULL, NULL, 'measured', 'claim'),
	(11, '[24,28)', '["2026-03-09 00:00:00+00","2026-03-09 04:00:00+00")', '[1,)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(1, '[16,20)', '["2026-03-06 05:00:00+00","2026-03-07 00:00:00+00")', '[1,3)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(3, '[16,20)', '["2026-03-07 00:00:00+00","2026-03-08 00:00:00+00")', '[1,3)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(4, '[24,28)', '["2026-03-07 00:00:00+00","2026-03-08 00:00:00+00")', '[1,3)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(7, '[16,20)', '["2026-03-08 00:00:00+00","2026-03-09 00:00:00+00")', '[1,3)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(2, '[24,28)', '["2026-03-06 05:00:00+00","2026-03-07 00:00:00+00")', '[1,5)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(8, '[24,28)', '["2026-03-08 00:00:00+00","2026-03-09 00:00:00+00")', '[1,5)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(12, '[16,20)', '["2026-03-06 05:00:00+00","2026-03-07 00:00:00+00")', '[3,5)', 'down', 1000000, 'host/dram', 1, 1, NULL, 'measured', 'claim'),
	(13, '[16,20)', '["2026-03-07 00:00:00+00","2026-03-08 00:00:00+00")', '[3,5)', 'down', 1000000, 'host/dram', 1, 1, NULL, 'measured', 'claim'),
	(14, '[24,28)', '["2026-03-07 00:00:00+00","2026-03-07 01:00:00+00")', '[3,5)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(15, '[24,28)', '["2026-03-07 01:00:00+00","2026-03-07 04:30:00.25+00")', '[3,5)', 'degraded', 250000, 'fabric/nic', 2, 2, NULL, 'measured', 'claim'),
	(16, '[24,28)', '["2026-03-07 04:30:00.25+00","2026-03-08 00:00:00+00")', '[3,5)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(17, '[16,20)', '["2026-03-08 00:00:00+00","2026-03-08 02:00:00+00")', '[3,5)', 'down', 1000000, 'host/dram', 1, 1, NULL, 'measured', 'claim'),
	(18, '[16,20)', '["2026-03-08 02:00:00+00","2026-03-09 00:00:00+00")', '[3,5)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(19, '[16,20)', '["2026-03-06 05:00:00+00","2026-03-07 00:00:00+00")', '[5,)', 'down', 1000000, 'host/dram', 1, 3, 1, 'measured', 'claim'),
	(20, '[24,28)', '["2026-03-06 05:00:00+00","2026-03-07 00:00:00+00")', '[5,)', 'productive', 0, NULL, NULL, NULL, 1, 'presumed', 'claim'),
	(21, '[16,20)', '["2026-03-07 00:00:00+00","2026-03-08 00:00:00+00")', '[5,)', 'down', 1000000, 'host/dram', 1, 3, 1, 'measured', 'claim'),
	(22, '[24,28)', '["2026-03-07 00:00:00+00","2026-03-07 01:00:00+00")', '[5,)', 'productive', 0, NULL, NULL, NULL, 1, 'presumed', 'claim'),
	(23, '[24,28)', '["2026-03-07 01:00:00+00","2026-03-07 04:30:00.25+00")', '[5,)', 'degraded', 250000, 'fabric/nic', 2, 2, 1, 'measured', 'claim'),
	(24, '[24,28)', '["2026-03-07 04:30:00.25+00","2026-03-08 00:00:00+00")', '[5,)', 'productive', 0, NULL, NULL, NULL, 1, 'presumed', 'claim'),
	(25, '[16,20)', '["2026-03-08 00:00:00+00","2026-03-08 09:00:00+00")', '[5,)', 'down', 1000000, 'host/dram', 1, 3, NULL, 'measured', 'claim'),
	(26, '[24,28)', '["2026-03-08 00:00:00+00","2026-03-08 15:00:00+00")', '[5,)', 'productive', 0, NULL, NULL, NULL, 2, 'presumed', 'claim'),
	(27, '[16,20)', '["2026-03-08 09:00:00+00","2026-03-08 10:00:00+00")', '[5,)', 'down', 1000000, 'host/dram', 1, 4, NULL, 'measured', 'claim'),
	(28, '[16,20)', '["2026-03-08 10:00:00+00","2026-03-09 00:00:00+00")', '[5,)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(29, '[24,28)', '["2026-03-08 15:00:00+00","2026-03-09 00:00:00+00")', '[5,)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(9, '[0,4)', '["2026-03-09 00:00:00+00","2026-03-09 04:00:00+00")', '[1,6)', 'stranded', 1000000, 'capacity/stranded', NULL, NULL, NULL, 'measured', 'claim'),
	(10, '[16,20)', '["2026-03-09 00:00:00+00","2026-03-09 04:00:00+00")', '[1,6)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(30, '[0,4)', '["2026-03-09 00:00:00+00","2026-03-10 00:00:00+00")', '[6,)', 'stranded', 1000000, 'capacity/stranded', NULL, NULL, NULL, 'measured', 'claim'),
	(31, '[16,20)', '["2026-03-09 00:00:00+00","2026-03-10 00:00:00+00")', '[6,)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence'),
	(32, '[0,4)', '["2026-03-10 00:00:00+00","2026-03-10 04:00:00+00")', '[6,)', 'stranded', 1000000, 'capacity/stranded', NULL, NULL, NULL, 'measured', 'claim'),
	(33, '[16,20)', '["2026-03-10 00:00:00+00","2026-03-10 04:00:00+00")', '[6,)', 'unknown', 0, NULL, NULL, NULL, NULL, 'none', 'silence');

INSERT INTO public.rate_line OVERRIDING SYSTEM VALUE VALUES
	(1, 'list', 'H100', 'USD'),
	(2, 'list', 'B200', 'USD');

INSERT INTO public.rate OVERRIDING SYSTEM VALUE VALUES
	(1, 1, 2.49000000, '["2026-03-01 05:00:00+00",)', NULL, NULL, '[2,)', DEFAULT),
	(2, 2, 4.20000000, '["2026-03-08 05:00:00+00",)', NULL, NULL, '[2,)', DEFAULT);

INSERT INTO public.revision VALUES
	(1, '2026-11-30 15:22:33.501+00', 'fleet', 'someone', 'gpu-minutes 0.1.0', '2026-03-09 04:00:00+00', '\x895203f74799813f68e8980c761bafb33148ea3cb814354ca8ccada91e980422', 'fleet load fleet.csv', '\xb5b268d0639e70fe3f12ae4b843158bac5e52f1964abf73393035c7137cb92eb'),
	(2, '2026-11-30 15:22:35.759+00', 'rates', 'someone', 'gpu-minutes 0.1.0', '2026-03-09 04:00:00+00', '\xdbfa27ca39c9aab87c74e10d9d104884abe1ed6ea5dfe4db795079a531afe49a', 'rates load rates.csv', '\x7349fc915f8be46eb86caad4a3611431cc77e9d281e339da1dac26db89caf7ea'),
	(3, '2026-11-30 15:22:38.139+00', 'import', 'someone', 'gpu-minutes 0.1.0', '2026-03-09 04:00:00+00', '\xf59d8fb49d7b419f576ab326428a8dec21ffe43cb3882fe59ec436642995c129', 'import evidence a.csv', '\x8275c0eb7e3cb1925e7ded709a5d470454ceab2747268fe8a8be09c498c964fd'),
	(4, '2026-11-30 15:22:40.343+00', 'import', 'someone', 'gpu-minutes 0.1.0', '2026-03-09 04:00:00+00', '\xfbf9ba04f87041cd01cef18a8530c2eece190cdba2d2af7ea11423147dffde39', 'import allocations j.csv', '\xab5db0e1052e382a18ab909543d303949fe0331e19ff1d0a89aa67c68121d58e'),
	(5, '2026-11-30 15:22:42.275+00', 'import', 'someone', 'gpu-minutes 0.1.0', '2026-03-09 04:00:00+00', '\x13bed42155fa9ecbbba77ca0aa8946b4a3eaa09572c4df31c0af4f1758a3cb56', 'import evidence b.csv', '\x32ae09a646b0a720baab224bbc7e25e1e7f5ab5a821a6251052ce5535a2fc987'),
	(6, '2026-11-30 15:22:44.756+00', 'derive', 'someone', 'gpu-minutes 0.1.0', '2026-03-10 04:00:00+00', '\xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 'book', '\xbe40409c86a1e6ff1a62083db2c9026742d9a778d7e997ce338a7bc6b406b1ac');

INSERT INTO public.unbooked VALUES
	('["2026-03-06 00:00:00+00","2026-03-08 00:00:00+00")', '[4,5)'),
	('["2026-03-07 12:00:00+00","2026-03-08 15:00:00+00")', '[4,5)');

SELECT pg_catalog.setval('public.allocation_id_seq', 2, true);
SELECT pg_catalog.setval('public.evidence_id_seq', 4, true);
SELECT pg_catalog.setval('public.gpu_id_seq', 12, true);
SELECT pg_catalog.setval('public.incident_id_seq', 2, true);
SELECT pg_catalog.setval('public.ledger_entry_id_seq', 33, true);
SELECT pg_catalog.setval('public.place_id_seq', 7, true);
SELECT pg_catalog.setval('public.rate_id_seq', 2, true);
SELECT pg_catalog.setval('public.rate_line_id_seq', 2, true);
SELECT pg_catalog.setval('public.tenure_id_seq', 12, true);
