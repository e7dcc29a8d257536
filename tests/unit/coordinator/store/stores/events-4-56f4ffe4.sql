BEGIN TRANSACTION;
CREATE TABLE artifacts (
	sha256 VARCHAR(64) NOT NULL, 
	content BLOB NOT NULL, 
	PRIMARY KEY (sha256)
);
CREATE TABLE containers (
	id VARCHAR(240) NOT NULL, 
	job VARCHAR(100) NOT NULL, 
	seat VARCHAR(100) NOT NULL, 
	deployment INTEGER NOT NULL, 
	epoch BIGINT NOT NULL, 
	execution TEXT NOT NULL, 
	host TEXT NOT NULL, 
	pid BIGINT NOT NULL, 
	instance TEXT NOT NULL, 
	rack TEXT, 
	registered_at FLOAT NOT NULL, 
	gone TEXT, 
	PRIMARY KEY (id), 
	FOREIGN KEY(job) REFERENCES jobs (name)
);
INSERT INTO "containers" VALUES('j:0:1','j','0',1,1,'execution-1','here',1,'',NULL,6000.0,'the user fenced it: it hangs');
INSERT INTO "containers" VALUES('j:0:3','j','0',1,3,'execution-2','here',2,'',NULL,6036.0,NULL);
CREATE TABLE deployments (
	job VARCHAR(100) NOT NULL, 
	id INTEGER NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	graph TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	promises TEXT NOT NULL, 
	formats TEXT NOT NULL, 
	program TEXT, 
	until_caught_up BOOLEAN NOT NULL, 
	drain TEXT, 
	error TEXT, 
	created_at FLOAT NOT NULL, 
	changed_at FLOAT NOT NULL, 
	PRIMARY KEY (job, id), 
	FOREIGN KEY(job) REFERENCES jobs (name)
);
INSERT INTO "deployments" VALUES('j',1,'running','{
  "version": 1,
  "job": "j",
  "nodes": [
    {
      "id": 0,
      "kind": "read",
      "name": "in",
      "inputs": [],
      "args": {
        "stream": "in",
        "key": "k binary",
        "schema": "n int",
        "broadcast": false,
        "start": "earliest"
      },
      "named": false,
      "where": "factory.py:46"
    },
    {
      "id": 1,
      "kind": "where",
      "name": "where",
      "inputs": [
        0
      ],
      "args": {
        "condition": "n > 0"
      },
      "named": false,
      "where": "factory.py:47"
    },
    {
      "id": 2,
      "kind": "write",
      "name": "out",
      "inputs": [
        1
      ],
      "args": {
        "stream": "out"
      },
      "named": false,
      "where": "factory.py:47"
    },
    {
      "id": 3,
      "kind": "agg",
      "name": "counted",
      "inputs": [
        0
      ],
      "args": {
        "by": [],
        "aggregates": {
          "n": "count(*)"
        },
        "emit": "on_update"
      },
      "named": true,
      "where": "factory.py:49"
    },
    {
      "id": 4,
      "kind": "write",
      "name": "counts",
      "inputs": [
        3
      ],
      "args": {
        "stream": "counts"
      },
      "named": false,
      "where": "factory.py:49"
    }
  ]
}','{}','{}','{}','{
  "version": 1,
  "artifact": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "file": "job.py",
  "settings": {
    "job": {
      "max_wait": "1 hour"
    }
  },
  "schemas": {},
  "cores": 0
}',0,NULL,NULL,6000.0,6025.0);
CREATE TABLE events (
	id INTEGER NOT NULL, 
	job VARCHAR(100) NOT NULL, 
	at FLOAT NOT NULL, 
	who TEXT NOT NULL, 
	what TEXT NOT NULL, 
	why TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(job) REFERENCES jobs (name)
);
INSERT INTO "events" VALUES(1,'j',6000.0,'user','planned deployment 1','');
INSERT INTO "events" VALUES(2,'j',6000.0,'coordinator','planned → starting','the user started it');
INSERT INTO "events" VALUES(3,'j',6000.0,'j:0:1','took seat 0','process 1 on here');
INSERT INTO "events" VALUES(4,'j',6000.0,'j:0:1','lane 0-00000000 runs','');
INSERT INTO "events" VALUES(5,'j',6000.0,'j:0:1','lane 0-00000001 runs','');
INSERT INTO "events" VALUES(6,'j',6000.0,'coordinator','starting → running','all its lanes run');
INSERT INTO "events" VALUES(7,'j',6006.0,'user','running → changing, generation 2','factor 1 → 4, containers 1 → 1');
INSERT INTO "events" VALUES(8,'j',6006.0,'coordinator','output should stand still for 1.2 s','2 lane(s) close, 2 follow');
INSERT INTO "events" VALUES(9,'j',6008.0,'j:0:1','lane 0-00000000 ended','');
INSERT INTO "events" VALUES(10,'j',6008.0,'j:0:1','lane 0-00000001 ended','');
INSERT INTO "events" VALUES(11,'j',6008.0,'coordinator','lane 0-6e40ad56 has its start offsets','');
INSERT INTO "events" VALUES(12,'j',6008.0,'coordinator','lane 0-dd306fc9 has its start offsets','');
INSERT INTO "events" VALUES(13,'j',6009.0,'j:0:1','lane 0-6e40ad56 runs','');
INSERT INTO "events" VALUES(14,'j',6009.0,'j:0:1','lane 0-dd306fc9 runs','');
INSERT INTO "events" VALUES(15,'j',6009.0,'coordinator','changing → running','the change is done, in 3.0 s');
INSERT INTO "events" VALUES(16,'j',6012.0,'user','running → changing, generation 3','factor 4 → 8, containers 1 → 1; without waiting: batches that are written at least once, or were given to foreach_batch, may be repeated');
INSERT INTO "events" VALUES(17,'j',6012.0,'coordinator','output should stand still for 1.2 s','2 lane(s) close, 2 follow');
INSERT INTO "events" VALUES(18,'j',6014.0,'user','changing → changing, generation 4','cancelled: the user cancelled it');
INSERT INTO "events" VALUES(19,'j',6014.0,'coordinator','output should stand still for 1.2 s','2 lane(s) close, 2 follow');
INSERT INTO "events" VALUES(20,'j',6016.0,'j:0:1','lane 0-6e40ad56 ended','');
INSERT INTO "events" VALUES(21,'j',6016.0,'j:0:1','lane 0-dd306fc9 ended','');
INSERT INTO "events" VALUES(22,'j',6016.0,'coordinator','lane 0-6c36318c has its start offsets','');
INSERT INTO "events" VALUES(23,'j',6016.0,'coordinator','lane 0-0d640bc5 has its start offsets','');
INSERT INTO "events" VALUES(24,'j',6017.0,'j:0:1','lane 0-6c36318c ended','');
INSERT INTO "events" VALUES(25,'j',6017.0,'j:0:1','lane 0-0d640bc5 ended','');
INSERT INTO "events" VALUES(26,'j',6017.0,'coordinator','lane 0-5af26952 has its start offsets','');
INSERT INTO "events" VALUES(27,'j',6017.0,'coordinator','lane 0-fc1c949d has its start offsets','');
INSERT INTO "events" VALUES(28,'j',6018.0,'j:0:1','lane 0-5af26952 runs','');
INSERT INTO "events" VALUES(29,'j',6018.0,'j:0:1','lane 0-fc1c949d runs','');
INSERT INTO "events" VALUES(30,'j',6018.0,'coordinator','changing → running','the change is done, in 6.0 s');
INSERT INTO "events" VALUES(31,'j',6020.0,'user','running → changing, generation 5','factor 4 → 16, containers 1 → 1');
INSERT INTO "events" VALUES(32,'j',6020.0,'coordinator','output should stand still for 1.2 s','2 lane(s) close, 2 follow');
INSERT INTO "events" VALUES(33,'j',6022.0,'j:0:1','lane 0-5af26952 ended','');
INSERT INTO "events" VALUES(34,'j',6022.0,'j:0:1','lane 0-fc1c949d ended','');
INSERT INTO "events" VALUES(35,'j',6022.0,'coordinator','lane 0-b44ead30 has its start offsets','');
INSERT INTO "events" VALUES(36,'j',6022.0,'coordinator','lane 0-18fe9711 has its start offsets','');
INSERT INTO "events" VALUES(37,'j',6023.0,'j:0:1','lane 0-b44ead30 runs','');
INSERT INTO "events" VALUES(38,'j',6023.0,'j:0:1','lane 0-18fe9711 failed','it can''t');
INSERT INTO "events" VALUES(39,'j',6023.0,'coordinator','changing → changing, generation 6','cancelled: lane 0-18fe9711 can''t start: it can''t');
INSERT INTO "events" VALUES(40,'j',6023.0,'coordinator','output should stand still for 1.2 s','2 lane(s) close, 2 follow');
INSERT INTO "events" VALUES(41,'j',6023.0,'coordinator','lane 0-6a6934f7 has its start offsets','');
INSERT INTO "events" VALUES(42,'j',6024.0,'j:0:1','lane 0-b44ead30 ended','');
INSERT INTO "events" VALUES(43,'j',6024.0,'j:0:1','lane 0-6a6934f7 runs','');
INSERT INTO "events" VALUES(44,'j',6024.0,'coordinator','lane 0-ed820f03 has its start offsets','');
INSERT INTO "events" VALUES(45,'j',6025.0,'j:0:1','lane 0-ed820f03 runs','');
INSERT INTO "events" VALUES(46,'j',6025.0,'coordinator','changing → running','the change is done, in 5.0 s');
INSERT INTO "events" VALUES(47,'j',6028.0,'user','running → changing, generation 6','rewound to embedded/in/1 at 2, state: keep');
INSERT INTO "events" VALUES(48,'j',6028.0,'coordinator','changing → running','');
INSERT INTO "events" VALUES(49,'j',6035.0,'j:0:1','lane 0-6a6934f7 failed and is tried again, attempt 2','ValueError: no');
INSERT INTO "events" VALUES(50,'j',6035.0,'j:0:1','lane 0-6a6934f7 waits for a disk','ValueError: no');
INSERT INTO "events" VALUES(51,'j',6035.0,'j:0:1','lane 0-6a6934f7 waits to end','batch 7 is being written');
INSERT INTO "events" VALUES(52,'j',6035.0,'user','j:0:1 has lost its seat','the user fenced it: it hangs');
INSERT INTO "events" VALUES(53,'j',6035.0,'coordinator','lane 0-ed820f03 can''t be fenced yet','a broker doesn''t answer');
INSERT INTO "events" VALUES(54,'j',6035.0,'coordinator','lane 0-ed820f03 is fenced','at epoch 2');
INSERT INTO "events" VALUES(55,'j',6035.0,'coordinator','lane 0-6a6934f7 can''t be fenced yet','a broker doesn''t answer');
INSERT INTO "events" VALUES(56,'j',6035.0,'coordinator','lane 0-6a6934f7 is fenced','at epoch 2');
INSERT INTO "events" VALUES(57,'j',6036.0,'j:0:3','took seat 0','process 2 on here');
INSERT INTO "events" VALUES(58,'j',6038.0,'j:0:3','lane 0-ed820f03 runs','');
INSERT INTO "events" VALUES(59,'j',6038.0,'j:0:3','lane 0-6a6934f7 runs','');
INSERT INTO "events" VALUES(60,'j',6042.0,'autoscale','running → changing, generation 8','factor 4 → 8, containers 1 → 1: lane 0-1a2b: 4.2 s of records wait');
INSERT INTO "events" VALUES(61,'j',6042.0,'coordinator','output should stand still for 1.2 s','8 lane(s) close, 8 follow');
INSERT INTO "events" VALUES(62,'j',6042.0,'user','the change is hastened','without waiting: batches that are written at least once, or were given to foreach_batch, may be repeated');
INSERT INTO "events" VALUES(63,'j',6042.0,'coordinator','the change can''t be taken back','lane 0-1a2b has begun');
INSERT INTO "events" VALUES(64,'j',6042.0,'coordinator','seat 0 closes 0-1a2b, 0-3c4d','nobody has its seat, which is no more');
INSERT INTO "events" VALUES(65,'j',6042.0,'coordinator','lane 0-1a2b never began','');
INSERT INTO "events" VALUES(66,'j',6042.0,'coordinator','changing → running','the change is done, in 4.1 s');
INSERT INTO "events" VALUES(67,'j',6042.0,'coordinator','output stood still for 1.6 s','1.2 s was foretold');
INSERT INTO "events" VALUES(68,'j',6042.0,'autoscale','the factor stays 8, which isn''t enough','lane 0-1a2b: no factor helps');
INSERT INTO "events" VALUES(69,'j',6042.0,'user','running → changing, deployment 2','nothing comes or goes');
INSERT INTO "events" VALUES(70,'j',6042.0,'coordinator','changing → running','the change is done, in 9.9 s');
INSERT INTO "events" VALUES(71,'j',6042.0,'coordinator','nothing came to be read in the change','0.9 s was foretold');
INSERT INTO "events" VALUES(72,'j',6042.0,'user','running → changing, deployment 3, of version 1 again','nothing comes or goes');
INSERT INTO "events" VALUES(73,'j',6042.0,'user','changing → changing, deployment 4, of version 2 again','cancelled: the user cancelled it');
INSERT INTO "events" VALUES(74,'j',6042.0,'coordinator','changing → running','the change is done, in 0.5 s');
INSERT INTO "events" VALUES(75,'j',6042.0,'user','running → changing, generation 2','tasks go where they should be by racks');
INSERT INTO "events" VALUES(76,'j',6042.0,'coordinator','changing → failed','lane 0-1a2b: no');
INSERT INTO "events" VALUES(77,'j',6042.0,'coordinator','running → changing, generation 3','embedded/in has 4 partitions, and had 2');
INSERT INTO "events" VALUES(78,'j',6042.0,'coordinator','changing → stopping','the user stopped it');
INSERT INTO "events" VALUES(79,'j',6042.0,'user','the stop is hastened','without waiting: batches that are written at least once, or were given to foreach_batch, may be repeated');
INSERT INTO "events" VALUES(80,'j',6042.0,'user','drain, up to latest','12.0 s is foretold');
INSERT INTO "events" VALUES(81,'j',6042.0,'user','the user cancelled the drain','');
INSERT INTO "events" VALUES(82,'j',6042.0,'coordinator','the drain takes in all up to its positions','embedded/in/0 at 7');
INSERT INTO "events" VALUES(83,'j',6042.0,'coordinator','all is taken in: time ends','');
INSERT INTO "events" VALUES(84,'j',6042.0,'coordinator','draining → drained','all its lanes have drained; in 9.8 s, 12.0 s was foretold');
INSERT INTO "events" VALUES(85,'j',6042.0,'coordinator','the job doesn''t go along with its inputs','stream ''in'' has fewer partitions');
INSERT INTO "events" VALUES(86,'j',6042.0,'launcher','started a container, process 20260101-1','');
INSERT INTO "events" VALUES(87,'j',6042.0,'launcher','gave up starting containers after 8 failures in a row','exit code 3');
INSERT INTO "events" VALUES(88,'j',6042.0,'user','2 lanes are fenced','the user resets the job');
INSERT INTO "events" VALUES(89,'j',6042.0,'user','stopped → reset','the user resets the job');
INSERT INTO "events" VALUES(90,'j',6042.0,'user','new folders are made for 0-1a2b','the user compacts the job');
INSERT INTO "events" VALUES(91,'j',6042.0,'user','lane 0-1a2b has a new folder','1 of 2 rows stay');
INSERT INTO "events" VALUES(92,'j',6042.0,'user','a backup was made','');
INSERT INTO "events" VALUES(93,'j',6042.0,'admin at 127.0.0.1','POST /jobs/j/stop: 200','');
INSERT INTO "events" VALUES(94,'j',6042.0,'j:0:9','left seat 0','');
INSERT INTO "events" VALUES(95,'j',6042.0,'coordinator','lane 0-1a2b may start','');
CREATE TABLE jobs (
	name VARCHAR(100) NOT NULL, 
	epoch BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "jobs" VALUES('j',3);
CREATE TABLE lanes (
	job VARCHAR(100) NOT NULL, 
	id VARCHAR(200) NOT NULL, 
	deployment INTEGER NOT NULL, 
	generation INTEGER NOT NULL, 
	place INTEGER NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (job, id), 
	FOREIGN KEY(job, deployment) REFERENCES deployments (job, id)
);
INSERT INTO "lanes" VALUES('j','0-00000000',1,1,0,'closed','{
  "version": 1,
  "id": "0-00000000",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "outputs-embedded",
  "seat": "0",
  "tasks": [
    "Partition_0",
    "Partition_1"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "embedded/in/0",
    "embedded/in/1",
    "in:embedded/in/0",
    "in:embedded/in/1"
  ],
  "predecessors": [],
  "upstream": [],
  "beside": {
    "0-00000000": []
  },
  "outputs": {
    "out": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [
    "in"
  ],
  "rejecting": [
    "in"
  ],
  "stateful": false,
  "factor": 1,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [],
  "inherits": {},
  "firstBatch": 0,
  "statePartitions": 4,
  "format": 1,
  "state": "closed",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": true,
  "begun": true,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "lastBatch": 7,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('j','0-00000001',1,1,1,'closed','{
  "version": 1,
  "id": "0-00000001",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "counted",
  "seat": "0",
  "tasks": [
    "Partition_0",
    "Partition_1"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "state-0",
    "state-1",
    "state-2",
    "state-3",
    "counted:embedded/in/0",
    "counted:embedded/in/1",
    "counted:state-0",
    "counted:state-1",
    "counted:state-2",
    "counted:state-3"
  ],
  "predecessors": [],
  "upstream": [],
  "beside": {
    "0-00000001": []
  },
  "outputs": {
    "counts": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [],
  "rejecting": [
    "counted"
  ],
  "stateful": true,
  "factor": 1,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [],
  "inherits": {},
  "firstBatch": 0,
  "statePartitions": 4,
  "format": 1,
  "state": "closed",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": true,
  "begun": true,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "lastBatch": 7,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('j','0-6e40ad56',1,2,0,'closed','{
  "version": 1,
  "id": "0-6e40ad56",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "outputs-embedded",
  "seat": "0",
  "tasks": [
    "Partition_0-0-4",
    "Partition_0-1-4",
    "Partition_0-2-4",
    "Partition_0-3-4",
    "Partition_1-0-4",
    "Partition_1-1-4",
    "Partition_1-2-4",
    "Partition_1-3-4"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 3
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "embedded/in/0",
    "embedded/in/1",
    "in:embedded/in/0",
    "in:embedded/in/1"
  ],
  "predecessors": [
    "0-00000000"
  ],
  "upstream": [],
  "beside": {
    "0-6e40ad56": [
      "0-00000000"
    ]
  },
  "outputs": {
    "out": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [
    "in"
  ],
  "rejecting": [
    "in"
  ],
  "stateful": false,
  "factor": 4,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 0
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 2
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 3
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 0
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 2
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 3
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "inherits": {
    "0-00000000": 1
  },
  "firstBatch": 0,
  "statePartitions": 4,
  "format": 1,
  "state": "closed",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": true,
  "begun": true,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "lastBatch": 7,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('j','0-dd306fc9',1,2,1,'closed','{
  "version": 1,
  "id": "0-dd306fc9",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "counted",
  "seat": "0",
  "tasks": [
    "Partition_0-0-4",
    "Partition_0-1-4",
    "Partition_0-2-4",
    "Partition_0-3-4",
    "Partition_1-0-4",
    "Partition_1-1-4",
    "Partition_1-2-4",
    "Partition_1-3-4"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 3
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "state-0",
    "state-1",
    "state-2",
    "state-3",
    "counted:embedded/in/0",
    "counted:embedded/in/1",
    "counted:state-0",
    "counted:state-1",
    "counted:state-2",
    "counted:state-3"
  ],
  "predecessors": [
    "0-00000001"
  ],
  "upstream": [],
  "beside": {
    "0-dd306fc9": [
      "0-00000001"
    ]
  },
  "outputs": {
    "counts": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [],
  "rejecting": [
    "counted"
  ],
  "stateful": true,
  "factor": 4,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "inherits": {
    "0-00000001": 1
  },
  "firstBatch": 8,
  "statePartitions": 4,
  "format": 1,
  "state": "closed",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": true,
  "begun": true,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "lastBatch": 8,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('j','0-6c36318c',1,3,0,'closed','{
  "version": 1,
  "id": "0-6c36318c",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "outputs-embedded",
  "seat": "0",
  "tasks": [
    "Partition_0-0-8",
    "Partition_0-1-8",
    "Partition_0-2-8",
    "Partition_0-3-8",
    "Partition_0-4-8",
    "Partition_0-5-8",
    "Partition_0-6-8",
    "Partition_0-7-8",
    "Partition_1-0-8",
    "Partition_1-1-8",
    "Partition_1-2-8",
    "Partition_1-3-8",
    "Partition_1-4-8",
    "Partition_1-5-8",
    "Partition_1-6-8",
    "Partition_1-7-8"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 4
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 5
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 6
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 7
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 4
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 5
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 6
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 7
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#4": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#5": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#6": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#7": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#4": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#5": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#6": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#7": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "embedded/in/0",
    "embedded/in/1",
    "in:embedded/in/0",
    "in:embedded/in/1"
  ],
  "predecessors": [
    "0-6e40ad56"
  ],
  "upstream": [],
  "beside": {
    "0-6c36318c": [
      "0-6e40ad56"
    ]
  },
  "outputs": {
    "out": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [
    "in"
  ],
  "rejecting": [
    "in"
  ],
  "stateful": false,
  "factor": 8,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 0
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 2
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 3
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 4
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 5
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 6
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 7
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 0
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 2
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 3
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 4
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 5
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 6
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 7
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "inherits": {
    "0-6e40ad56": 1
  },
  "firstBatch": 0,
  "statePartitions": 4,
  "format": 1,
  "state": "closed",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": false,
  "begun": false,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "lastBatch": 7,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('j','0-0d640bc5',1,3,1,'closed','{
  "version": 1,
  "id": "0-0d640bc5",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "counted",
  "seat": "0",
  "tasks": [
    "Partition_0-0-8",
    "Partition_0-1-8",
    "Partition_0-2-8",
    "Partition_0-3-8",
    "Partition_0-4-8",
    "Partition_0-5-8",
    "Partition_0-6-8",
    "Partition_0-7-8",
    "Partition_1-0-8",
    "Partition_1-1-8",
    "Partition_1-2-8",
    "Partition_1-3-8",
    "Partition_1-4-8",
    "Partition_1-5-8",
    "Partition_1-6-8",
    "Partition_1-7-8"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 4
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 5
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 6
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 7
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 4
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 5
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 6
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 7
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#4": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#5": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#6": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#7": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#4": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#5": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#6": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#7": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "state-0",
    "state-1",
    "state-2",
    "state-3",
    "counted:embedded/in/0",
    "counted:embedded/in/1",
    "counted:state-0",
    "counted:state-1",
    "counted:state-2",
    "counted:state-3"
  ],
  "predecessors": [
    "0-dd306fc9"
  ],
  "upstream": [],
  "beside": {
    "0-0d640bc5": [
      "0-dd306fc9"
    ]
  },
  "outputs": {
    "counts": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [],
  "rejecting": [
    "counted"
  ],
  "stateful": true,
  "factor": 8,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "inherits": {
    "0-dd306fc9": 1
  },
  "firstBatch": 9,
  "statePartitions": 4,
  "format": 1,
  "state": "closed",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": false,
  "begun": false,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "lastBatch": 9,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('j','0-5af26952',1,4,0,'closed','{
  "version": 1,
  "id": "0-5af26952",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "outputs-embedded",
  "seat": "0",
  "tasks": [
    "Partition_0-0-4",
    "Partition_0-1-4",
    "Partition_0-2-4",
    "Partition_0-3-4",
    "Partition_1-0-4",
    "Partition_1-1-4",
    "Partition_1-2-4",
    "Partition_1-3-4"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 3
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "embedded/in/0",
    "embedded/in/1",
    "in:embedded/in/0",
    "in:embedded/in/1"
  ],
  "predecessors": [
    "0-6c36318c"
  ],
  "upstream": [],
  "beside": {
    "0-5af26952": [
      "0-6c36318c"
    ]
  },
  "outputs": {
    "out": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [
    "in"
  ],
  "rejecting": [
    "in"
  ],
  "stateful": false,
  "factor": 4,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 0
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 2
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 3
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 0
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 2
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 3
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "inherits": {
    "0-6c36318c": 1
  },
  "firstBatch": 0,
  "statePartitions": 4,
  "format": 1,
  "state": "closed",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": true,
  "begun": true,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "lastBatch": 7,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('j','0-fc1c949d',1,4,1,'closed','{
  "version": 1,
  "id": "0-fc1c949d",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "counted",
  "seat": "0",
  "tasks": [
    "Partition_0-0-4",
    "Partition_0-1-4",
    "Partition_0-2-4",
    "Partition_0-3-4",
    "Partition_1-0-4",
    "Partition_1-1-4",
    "Partition_1-2-4",
    "Partition_1-3-4"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 3
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "state-0",
    "state-1",
    "state-2",
    "state-3",
    "counted:embedded/in/0",
    "counted:embedded/in/1",
    "counted:state-0",
    "counted:state-1",
    "counted:state-2",
    "counted:state-3"
  ],
  "predecessors": [
    "0-0d640bc5"
  ],
  "upstream": [],
  "beside": {
    "0-fc1c949d": [
      "0-0d640bc5"
    ]
  },
  "outputs": {
    "counts": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [],
  "rejecting": [
    "counted"
  ],
  "stateful": true,
  "factor": 4,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "inherits": {
    "0-0d640bc5": 1
  },
  "firstBatch": 10,
  "statePartitions": 4,
  "format": 1,
  "state": "closed",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": true,
  "begun": true,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "lastBatch": 10,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('j','0-b44ead30',1,5,0,'closed','{
  "version": 1,
  "id": "0-b44ead30",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "outputs-embedded",
  "seat": "0",
  "tasks": [
    "Partition_0-0-16",
    "Partition_0-1-16",
    "Partition_0-2-16",
    "Partition_0-3-16",
    "Partition_0-4-16",
    "Partition_0-5-16",
    "Partition_0-6-16",
    "Partition_0-7-16",
    "Partition_0-8-16",
    "Partition_0-9-16",
    "Partition_0-10-16",
    "Partition_0-11-16",
    "Partition_0-12-16",
    "Partition_0-13-16",
    "Partition_0-14-16",
    "Partition_0-15-16",
    "Partition_1-0-16",
    "Partition_1-1-16",
    "Partition_1-2-16",
    "Partition_1-3-16",
    "Partition_1-4-16",
    "Partition_1-5-16",
    "Partition_1-6-16",
    "Partition_1-7-16",
    "Partition_1-8-16",
    "Partition_1-9-16",
    "Partition_1-10-16",
    "Partition_1-11-16",
    "Partition_1-12-16",
    "Partition_1-13-16",
    "Partition_1-14-16",
    "Partition_1-15-16"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 4
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 5
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 6
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 7
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 8
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 9
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 10
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 11
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 12
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 13
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 14
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 15
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 4
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 5
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 6
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 7
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 8
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 9
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 10
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 11
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 12
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 13
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 14
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 15
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#4": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#5": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#6": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#7": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#8": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#9": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#10": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#11": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#12": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#13": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#14": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#15": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#4": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#5": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#6": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#7": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#8": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#9": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#10": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#11": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#12": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#13": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#14": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#15": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "embedded/in/0",
    "embedded/in/1",
    "in:embedded/in/0",
    "in:embedded/in/1"
  ],
  "predecessors": [
    "0-5af26952"
  ],
  "upstream": [],
  "beside": {
    "0-b44ead30": [
      "0-5af26952"
    ]
  },
  "outputs": {
    "out": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [
    "in"
  ],
  "rejecting": [
    "in"
  ],
  "stateful": false,
  "factor": 16,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 0
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 2
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 3
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 4
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 5
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 6
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 7
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 8
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 9
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 10
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 11
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 12
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 13
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 14
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 15
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 0
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 2
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 3
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 4
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 5
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 6
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 7
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 8
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 9
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 10
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 11
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 12
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 13
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 14
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 15
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "inherits": {
    "0-5af26952": 1
  },
  "firstBatch": 0,
  "statePartitions": 4,
  "format": 1,
  "state": "closed",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": true,
  "begun": true,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "lastBatch": 7,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('j','0-18fe9711',1,5,1,'closed','{
  "version": 1,
  "id": "0-18fe9711",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "counted",
  "seat": "0",
  "tasks": [
    "Partition_0-0-16",
    "Partition_0-1-16",
    "Partition_0-2-16",
    "Partition_0-3-16",
    "Partition_0-4-16",
    "Partition_0-5-16",
    "Partition_0-6-16",
    "Partition_0-7-16",
    "Partition_0-8-16",
    "Partition_0-9-16",
    "Partition_0-10-16",
    "Partition_0-11-16",
    "Partition_0-12-16",
    "Partition_0-13-16",
    "Partition_0-14-16",
    "Partition_0-15-16",
    "Partition_1-0-16",
    "Partition_1-1-16",
    "Partition_1-2-16",
    "Partition_1-3-16",
    "Partition_1-4-16",
    "Partition_1-5-16",
    "Partition_1-6-16",
    "Partition_1-7-16",
    "Partition_1-8-16",
    "Partition_1-9-16",
    "Partition_1-10-16",
    "Partition_1-11-16",
    "Partition_1-12-16",
    "Partition_1-13-16",
    "Partition_1-14-16",
    "Partition_1-15-16"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 4
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 5
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 6
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 7
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 8
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 9
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 10
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 11
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 12
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 13
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 14
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 15
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 4
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 5
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 6
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 7
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 8
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 9
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 10
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 11
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 12
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 13
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 14
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 15
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#4": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#5": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#6": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#7": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#8": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#9": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#10": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#11": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#12": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#13": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#14": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#15": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#4": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#5": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#6": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#7": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#8": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#9": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#10": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#11": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#12": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#13": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#14": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#15": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "state-0",
    "state-1",
    "state-2",
    "state-3",
    "counted:embedded/in/0",
    "counted:embedded/in/1",
    "counted:state-0",
    "counted:state-1",
    "counted:state-2",
    "counted:state-3"
  ],
  "predecessors": [
    "0-fc1c949d"
  ],
  "upstream": [],
  "beside": {
    "0-18fe9711": [
      "0-fc1c949d"
    ]
  },
  "outputs": {
    "counts": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [],
  "rejecting": [
    "counted"
  ],
  "stateful": true,
  "factor": 16,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "inherits": {
    "0-fc1c949d": 1
  },
  "firstBatch": 11,
  "statePartitions": 4,
  "format": 1,
  "state": "closed",
  "epoch": 1,
  "folderEpoch": 0,
  "ran": false,
  "begun": false,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "lastBatch": 10,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": "lane 0-18fe9711 can''t start: it can''t"
}');
INSERT INTO "lanes" VALUES('j','0-ed820f03',1,6,0,'running','{
  "version": 1,
  "id": "0-ed820f03",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "outputs-embedded",
  "seat": "0",
  "tasks": [
    "Partition_0-0-4",
    "Partition_0-1-4",
    "Partition_0-2-4",
    "Partition_0-3-4",
    "Partition_1-0-4",
    "Partition_1-1-4",
    "Partition_1-2-4",
    "Partition_1-3-4"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 3
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "embedded/in/0",
    "embedded/in/1",
    "in:embedded/in/0",
    "in:embedded/in/1"
  ],
  "predecessors": [
    "0-b44ead30"
  ],
  "upstream": [],
  "beside": {
    "0-ed820f03": [
      "0-b44ead30"
    ]
  },
  "outputs": {
    "out": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [
    "in"
  ],
  "rejecting": [
    "in"
  ],
  "stateful": false,
  "factor": 4,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 0
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 2
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": 3
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 0
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 2
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": 3
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "inherits": {
    "0-b44ead30": 1
  },
  "firstBatch": 0,
  "statePartitions": 4,
  "format": 1,
  "state": "running",
  "epoch": 3,
  "folderEpoch": 1,
  "ran": true,
  "begun": true,
  "unfenced": false,
  "abandoned": true,
  "final": [],
  "lastBatch": -1,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('j','0-6a6934f7',1,6,1,'running','{
  "version": 1,
  "id": "0-6a6934f7",
  "job": "j",
  "deployment": 1,
  "stage": "0",
  "group": "counted",
  "seat": "0",
  "tasks": [
    "Partition_0-0-4",
    "Partition_0-1-4",
    "Partition_0-2-4",
    "Partition_0-3-4",
    "Partition_1-0-4",
    "Partition_1-1-4",
    "Partition_1-2-4",
    "Partition_1-3-4"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": 3
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 1
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 2
    },
    {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": 3
    }
  ],
  "broadcast": [],
  "matched": {},
  "base": {
    "embedded/in/0#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/0#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/in/1#0": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#1": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#2": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/in/1#3": {
      "system": "embedded",
      "stream": "in",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "state-0",
    "state-1",
    "state-2",
    "state-3",
    "counted:embedded/in/0",
    "counted:embedded/in/1",
    "counted:state-0",
    "counted:state-1",
    "counted:state-2",
    "counted:state-3"
  ],
  "predecessors": [
    "0-18fe9711"
  ],
  "upstream": [],
  "beside": {
    "0-6a6934f7": [
      "0-18fe9711",
      "0-fc1c949d"
    ]
  },
  "outputs": {
    "counts": 2,
    "in-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "in": "in-dead-letters"
  },
  "reports": [],
  "rejecting": [
    "counted"
  ],
  "stateful": true,
  "factor": 4,
  "numbers": {
    "embedded/in/0": 0,
    "embedded/in/1": 1
  },
  "bases": [
    0,
    1
  ],
  "buckets": {},
  "added": [],
  "afresh": false,
  "rewind": null,
  "drained": null,
  "starting": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 0,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "in",
        "partition": 1,
        "keyBucket": -1
      },
      "offset": 3,
      "parts": {}
    }
  ],
  "inherits": {
    "0-fc1c949d": 1
  },
  "firstBatch": 11,
  "statePartitions": 4,
  "format": 1,
  "state": "running",
  "epoch": 3,
  "folderEpoch": 1,
  "ran": true,
  "begun": true,
  "unfenced": false,
  "abandoned": true,
  "final": [],
  "lastBatch": -1,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
CREATE TABLE leader (
	id INTEGER NOT NULL, 
	epoch BIGINT NOT NULL, 
	holder TEXT NOT NULL, 
	beat BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE meta (
	"key" VARCHAR(100) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('format','4');
CREATE TABLE models (
	job VARCHAR(100) NOT NULL, 
	deployment INTEGER NOT NULL, 
	generation INTEGER NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (job, deployment, generation), 
	FOREIGN KEY(job, deployment) REFERENCES deployments (job, id)
);
INSERT INTO "models" VALUES('j',1,1,'{
  "version": 1,
  "job": "j",
  "runId": 1,
  "generation": 1,
  "factor": 1,
  "stages": [
    {
      "stage": "0",
      "key": [
        "k"
      ],
      "stateful": true,
      "grouper": "partition",
      "inputs": [
        "embedded/in"
      ],
      "tasks": [
        {
          "name": "Partition_0",
          "index": 0,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": -1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1",
          "index": 1,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": -1
            }
          ],
          "broadcast": []
        }
      ],
      "base": {
        "embedded/in/0": {
          "system": "embedded",
          "stream": "in",
          "partition": 0,
          "keyBucket": -1
        },
        "embedded/in/1": {
          "system": "embedded",
          "stream": "in",
          "partition": 1,
          "keyBucket": -1
        }
      },
      "patterns": {}
    }
  ],
  "containers": [
    {
      "seat": "0",
      "tasks": {
        "0": [
          "Partition_0",
          "Partition_1"
        ]
      },
      "rack": null
    }
  ],
  "lanes": 1,
  "request": "",
  "undoes": 0,
  "rewound": [],
  "expands": [],
  "replaces": 0,
  "again": 0
}');
INSERT INTO "models" VALUES('j',1,2,'{
  "version": 1,
  "job": "j",
  "runId": 1,
  "generation": 2,
  "factor": 4,
  "stages": [
    {
      "stage": "0",
      "key": [
        "k"
      ],
      "stateful": true,
      "grouper": "partition",
      "inputs": [
        "embedded/in"
      ],
      "tasks": [
        {
          "name": "Partition_0-0-4",
          "index": 0,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-1-4",
          "index": 1,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-2-4",
          "index": 2,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 2
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-3-4",
          "index": 3,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 3
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-0-4",
          "index": 4,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-1-4",
          "index": 5,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-2-4",
          "index": 6,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 2
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-3-4",
          "index": 7,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 3
            }
          ],
          "broadcast": []
        }
      ],
      "base": {
        "embedded/in/0": {
          "system": "embedded",
          "stream": "in",
          "partition": 0,
          "keyBucket": -1
        },
        "embedded/in/1": {
          "system": "embedded",
          "stream": "in",
          "partition": 1,
          "keyBucket": -1
        }
      },
      "patterns": {}
    }
  ],
  "containers": [
    {
      "seat": "0",
      "tasks": {
        "0": [
          "Partition_0-0-4",
          "Partition_0-1-4",
          "Partition_0-2-4",
          "Partition_0-3-4",
          "Partition_1-0-4",
          "Partition_1-1-4",
          "Partition_1-2-4",
          "Partition_1-3-4"
        ]
      },
      "rack": null
    }
  ],
  "lanes": 1,
  "request": "",
  "undoes": 0,
  "rewound": [],
  "expands": [],
  "replaces": 0,
  "again": 0
}');
INSERT INTO "models" VALUES('j',1,3,'{
  "version": 1,
  "job": "j",
  "runId": 1,
  "generation": 3,
  "factor": 8,
  "stages": [
    {
      "stage": "0",
      "key": [
        "k"
      ],
      "stateful": true,
      "grouper": "partition",
      "inputs": [
        "embedded/in"
      ],
      "tasks": [
        {
          "name": "Partition_0-0-8",
          "index": 0,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-1-8",
          "index": 1,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-2-8",
          "index": 2,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 2
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-3-8",
          "index": 3,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 3
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-4-8",
          "index": 4,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 4
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-5-8",
          "index": 5,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 5
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-6-8",
          "index": 6,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 6
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-7-8",
          "index": 7,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 7
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-0-8",
          "index": 8,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-1-8",
          "index": 9,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-2-8",
          "index": 10,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 2
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-3-8",
          "index": 11,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 3
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-4-8",
          "index": 12,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 4
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-5-8",
          "index": 13,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 5
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-6-8",
          "index": 14,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 6
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-7-8",
          "index": 15,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 7
            }
          ],
          "broadcast": []
        }
      ],
      "base": {
        "embedded/in/0": {
          "system": "embedded",
          "stream": "in",
          "partition": 0,
          "keyBucket": -1
        },
        "embedded/in/1": {
          "system": "embedded",
          "stream": "in",
          "partition": 1,
          "keyBucket": -1
        }
      },
      "patterns": {}
    }
  ],
  "containers": [
    {
      "seat": "0",
      "tasks": {
        "0": [
          "Partition_0-0-8",
          "Partition_0-1-8",
          "Partition_0-2-8",
          "Partition_0-3-8",
          "Partition_0-4-8",
          "Partition_0-5-8",
          "Partition_0-6-8",
          "Partition_0-7-8",
          "Partition_1-0-8",
          "Partition_1-1-8",
          "Partition_1-2-8",
          "Partition_1-3-8",
          "Partition_1-4-8",
          "Partition_1-5-8",
          "Partition_1-6-8",
          "Partition_1-7-8"
        ]
      },
      "rack": null
    }
  ],
  "lanes": 1,
  "request": "",
  "undoes": 0,
  "rewound": [],
  "expands": [],
  "replaces": 0,
  "again": 0
}');
INSERT INTO "models" VALUES('j',1,4,'{
  "version": 1,
  "job": "j",
  "runId": 1,
  "generation": 4,
  "factor": 4,
  "stages": [
    {
      "stage": "0",
      "key": [
        "k"
      ],
      "stateful": true,
      "grouper": "partition",
      "inputs": [
        "embedded/in"
      ],
      "tasks": [
        {
          "name": "Partition_0-0-4",
          "index": 0,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-1-4",
          "index": 1,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-2-4",
          "index": 2,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 2
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-3-4",
          "index": 3,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 3
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-0-4",
          "index": 4,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-1-4",
          "index": 5,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-2-4",
          "index": 6,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 2
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-3-4",
          "index": 7,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 3
            }
          ],
          "broadcast": []
        }
      ],
      "base": {
        "embedded/in/0": {
          "system": "embedded",
          "stream": "in",
          "partition": 0,
          "keyBucket": -1
        },
        "embedded/in/1": {
          "system": "embedded",
          "stream": "in",
          "partition": 1,
          "keyBucket": -1
        }
      },
      "patterns": {}
    }
  ],
  "containers": [
    {
      "seat": "0",
      "tasks": {
        "0": [
          "Partition_0-0-4",
          "Partition_0-1-4",
          "Partition_0-2-4",
          "Partition_0-3-4",
          "Partition_1-0-4",
          "Partition_1-1-4",
          "Partition_1-2-4",
          "Partition_1-3-4"
        ]
      },
      "rack": null
    }
  ],
  "lanes": 1,
  "request": "",
  "undoes": 3,
  "rewound": [],
  "expands": [],
  "replaces": 0,
  "again": 0
}');
INSERT INTO "models" VALUES('j',1,5,'{
  "version": 1,
  "job": "j",
  "runId": 1,
  "generation": 5,
  "factor": 16,
  "stages": [
    {
      "stage": "0",
      "key": [
        "k"
      ],
      "stateful": true,
      "grouper": "partition",
      "inputs": [
        "embedded/in"
      ],
      "tasks": [
        {
          "name": "Partition_0-0-16",
          "index": 0,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-1-16",
          "index": 1,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-2-16",
          "index": 2,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 2
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-3-16",
          "index": 3,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 3
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-4-16",
          "index": 4,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 4
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-5-16",
          "index": 5,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 5
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-6-16",
          "index": 6,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 6
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-7-16",
          "index": 7,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 7
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-8-16",
          "index": 8,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 8
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-9-16",
          "index": 9,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 9
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-10-16",
          "index": 10,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 10
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-11-16",
          "index": 11,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 11
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-12-16",
          "index": 12,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 12
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-13-16",
          "index": 13,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 13
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-14-16",
          "index": 14,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 14
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-15-16",
          "index": 15,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 15
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-0-16",
          "index": 16,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-1-16",
          "index": 17,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-2-16",
          "index": 18,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 2
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-3-16",
          "index": 19,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 3
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-4-16",
          "index": 20,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 4
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-5-16",
          "index": 21,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 5
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-6-16",
          "index": 22,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 6
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-7-16",
          "index": 23,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 7
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-8-16",
          "index": 24,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 8
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-9-16",
          "index": 25,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 9
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-10-16",
          "index": 26,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 10
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-11-16",
          "index": 27,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 11
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-12-16",
          "index": 28,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 12
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-13-16",
          "index": 29,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 13
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-14-16",
          "index": 30,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 14
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-15-16",
          "index": 31,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 15
            }
          ],
          "broadcast": []
        }
      ],
      "base": {
        "embedded/in/0": {
          "system": "embedded",
          "stream": "in",
          "partition": 0,
          "keyBucket": -1
        },
        "embedded/in/1": {
          "system": "embedded",
          "stream": "in",
          "partition": 1,
          "keyBucket": -1
        }
      },
      "patterns": {}
    }
  ],
  "containers": [
    {
      "seat": "0",
      "tasks": {
        "0": [
          "Partition_0-0-16",
          "Partition_0-1-16",
          "Partition_0-2-16",
          "Partition_0-3-16",
          "Partition_0-4-16",
          "Partition_0-5-16",
          "Partition_0-6-16",
          "Partition_0-7-16",
          "Partition_0-8-16",
          "Partition_0-9-16",
          "Partition_0-10-16",
          "Partition_0-11-16",
          "Partition_0-12-16",
          "Partition_0-13-16",
          "Partition_0-14-16",
          "Partition_0-15-16",
          "Partition_1-0-16",
          "Partition_1-1-16",
          "Partition_1-2-16",
          "Partition_1-3-16",
          "Partition_1-4-16",
          "Partition_1-5-16",
          "Partition_1-6-16",
          "Partition_1-7-16",
          "Partition_1-8-16",
          "Partition_1-9-16",
          "Partition_1-10-16",
          "Partition_1-11-16",
          "Partition_1-12-16",
          "Partition_1-13-16",
          "Partition_1-14-16",
          "Partition_1-15-16"
        ]
      },
      "rack": null
    }
  ],
  "lanes": 1,
  "request": "",
  "undoes": 0,
  "rewound": [],
  "expands": [],
  "replaces": 0,
  "again": 0
}');
INSERT INTO "models" VALUES('j',1,6,'{
  "version": 1,
  "job": "j",
  "runId": 1,
  "generation": 6,
  "factor": 4,
  "stages": [
    {
      "stage": "0",
      "key": [
        "k"
      ],
      "stateful": true,
      "grouper": "partition",
      "inputs": [
        "embedded/in"
      ],
      "tasks": [
        {
          "name": "Partition_0-0-4",
          "index": 0,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-1-4",
          "index": 1,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-2-4",
          "index": 2,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 2
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-3-4",
          "index": 3,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 0,
              "keyBucket": 3
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-0-4",
          "index": 4,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-1-4",
          "index": 5,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-2-4",
          "index": 6,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 2
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-3-4",
          "index": 7,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "in",
              "partition": 1,
              "keyBucket": 3
            }
          ],
          "broadcast": []
        }
      ],
      "base": {
        "embedded/in/0": {
          "system": "embedded",
          "stream": "in",
          "partition": 0,
          "keyBucket": -1
        },
        "embedded/in/1": {
          "system": "embedded",
          "stream": "in",
          "partition": 1,
          "keyBucket": -1
        }
      },
      "patterns": {}
    }
  ],
  "containers": [
    {
      "seat": "0",
      "tasks": {
        "0": [
          "Partition_0-0-4",
          "Partition_0-1-4",
          "Partition_0-2-4",
          "Partition_0-3-4",
          "Partition_1-0-4",
          "Partition_1-1-4",
          "Partition_1-2-4",
          "Partition_1-3-4"
        ]
      },
      "rack": null
    }
  ],
  "lanes": 1,
  "request": "",
  "undoes": 5,
  "rewound": [],
  "expands": [],
  "replaces": 0,
  "again": 0
}');
CREATE UNIQUE INDEX containers_of_a_job ON containers (job, epoch);
CREATE INDEX events_of_a_job ON events (job, id);
CREATE INDEX lanes_of_a_deployment ON lanes (job, deployment);
COMMIT;
