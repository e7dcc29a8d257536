BEGIN TRANSACTION;
CREATE TABLE artifacts (
	sha256 VARCHAR(64) NOT NULL, 
	content BLOB NOT NULL, 
	PRIMARY KEY (sha256)
);
INSERT INTO "artifacts" VALUES('5555555555555555555555555555555555555555555555555555555555555555',X'636F6465');
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
INSERT INTO "containers" VALUES('delays:0:1','delays','0',1,1,'e0','a-host',40,'i0',NULL,20.0,'it gave its seat back');
INSERT INTO "containers" VALUES('delays:1:2','delays','1',1,2,'e1','a-host',41,'i1',NULL,21.0,NULL);
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
INSERT INTO "deployments" VALUES('delays',1,'stopped','{
  "version": 1,
  "job": "delays",
  "nodes": [
    {
      "id": 0,
      "kind": "read",
      "name": "flights",
      "inputs": [],
      "args": {
        "stream": "flights",
        "key": "tailnum string",
        "schema": "carrier string, dest string, dep_delay int",
        "broadcast": false,
        "start": "earliest"
      },
      "named": false,
      "where": "delays.py:15"
    },
    {
      "id": 1,
      "kind": "where",
      "name": "where",
      "inputs": [
        0
      ],
      "args": {
        "condition": "dep_delay >= 15"
      },
      "named": false,
      "where": "delays.py:16"
    },
    {
      "id": 2,
      "kind": "write",
      "name": "late-flights",
      "inputs": [
        1
      ],
      "args": {
        "stream": "late-flights"
      },
      "named": false,
      "where": "delays.py:16"
    },
    {
      "id": 3,
      "kind": "partition_by",
      "name": "by-dest",
      "inputs": [
        0
      ],
      "args": {
        "columns": [
          "dest"
        ],
        "via": "stream"
      },
      "named": false,
      "where": "delays.py:17"
    },
    {
      "id": 4,
      "kind": "agg",
      "name": "agg",
      "inputs": [
        3
      ],
      "args": {
        "by": [],
        "aggregates": {
          "flights": "count(*)"
        },
        "emit": "on_update"
      },
      "named": false,
      "where": "delays.py:17"
    },
    {
      "id": 5,
      "kind": "write",
      "name": "by-destination",
      "inputs": [
        4
      ],
      "args": {
        "stream": "by-destination"
      },
      "named": false,
      "where": "delays.py:17"
    }
  ]
}','{"factor":"2","grouper":"partition"}','{"late-flights":"exactly once","by-dest":"exactly once","flights":"exactly once","by-destination":"exactly once"}','{"late-flights":{"name":"string","schema":"","message":"","id":-1,"writers":{}}}','{
  "version": 1,
  "artifact": "5555555555555555555555555555555555555555555555555555555555555555",
  "file": "delays.py",
  "settings": {},
  "schemas": {},
  "cores": 0
}',0,NULL,NULL,10.0,32.0);
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
INSERT INTO "events" VALUES(1,'delays',10.0,'user','planned','');
INSERT INTO "events" VALUES(2,'delays',20.0,'delays:0:1','took seat 0','process 40 on a-host');
INSERT INTO "events" VALUES(3,'delays',21.0,'delays:1:2','took seat 1','process 41 on a-host');
INSERT INTO "events" VALUES(4,'delays',30.0,'user','ran','');
INSERT INTO "events" VALUES(5,'delays',31.0,'delays:0:1','left seat 0','');
INSERT INTO "events" VALUES(6,'delays',32.0,'user','stopped','');
CREATE TABLE jobs (
	name VARCHAR(100) NOT NULL, 
	epoch BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "jobs" VALUES('delays',2);
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
INSERT INTO "lanes" VALUES('delays','0-00000001',1,1,0,'planned','{
  "version": 1,
  "id": "0-00000001",
  "job": "delays",
  "deployment": 1,
  "stage": "0",
  "group": "outputs-embedded",
  "seat": "0",
  "tasks": [
    "Partition_0-0-2",
    "Partition_0-1-2"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "flights",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "flights",
      "partition": 0,
      "keyBucket": 1
    }
  ],
  "broadcast": [],
  "base": {
    "embedded/flights/0#0": {
      "system": "embedded",
      "stream": "flights",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/flights/0#1": {
      "system": "embedded",
      "stream": "flights",
      "partition": 0,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "embedded/flights/0",
    "flights:embedded/flights/0",
    "by-dest:embedded/flights/0"
  ],
  "predecessors": [],
  "upstream": [],
  "beside": {
    "0-00000001": [],
    "0-00000002": []
  },
  "outputs": {
    "late-flights": 2,
    "delays-by-dest-1": 2,
    "flights-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "flights": "flights-dead-letters"
  },
  "reports": [
    "flights"
  ],
  "rejecting": [
    "flights",
    "by-dest"
  ],
  "stateful": false,
  "factor": 2,
  "numbers": {
    "embedded/flights/0": 0
  },
  "bases": [
    0
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
  "state": "planned",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": true,
  "begun": false,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "flights",
        "partition": 0,
        "keyBucket": 0
      },
      "offset": 7,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "flights",
        "partition": 0,
        "keyBucket": 1
      },
      "offset": 7,
      "parts": {}
    }
  ],
  "lastBatch": 3,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('delays','0-00000002',1,1,1,'planned','{
  "version": 1,
  "id": "0-00000002",
  "job": "delays",
  "deployment": 1,
  "stage": "0",
  "group": "outputs-embedded",
  "seat": "1",
  "tasks": [
    "Partition_1-0-2",
    "Partition_1-1-2"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "flights",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "flights",
      "partition": 1,
      "keyBucket": 1
    }
  ],
  "broadcast": [],
  "base": {
    "embedded/flights/1#0": {
      "system": "embedded",
      "stream": "flights",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/flights/1#1": {
      "system": "embedded",
      "stream": "flights",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "embedded/flights/1",
    "flights:embedded/flights/1",
    "by-dest:embedded/flights/1"
  ],
  "predecessors": [],
  "upstream": [],
  "beside": {
    "0-00000001": [],
    "0-00000002": []
  },
  "outputs": {
    "late-flights": 2,
    "delays-by-dest-1": 2,
    "flights-dead-letters": 2
  },
  "systems": {},
  "deadLetters": {
    "flights": "flights-dead-letters"
  },
  "reports": [
    "flights"
  ],
  "rejecting": [
    "flights",
    "by-dest"
  ],
  "stateful": false,
  "factor": 2,
  "numbers": {
    "embedded/flights/1": 1
  },
  "bases": [
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
  "state": "planned",
  "epoch": 2,
  "folderEpoch": 0,
  "ran": false,
  "begun": false,
  "unfenced": false,
  "abandoned": false,
  "final": [],
  "lastBatch": -1,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('delays','1-00000003',1,1,2,'planned','{
  "version": 1,
  "id": "1-00000003",
  "job": "delays",
  "deployment": 1,
  "stage": "1",
  "group": "agg",
  "seat": "0",
  "tasks": [
    "Partition_0-0-2",
    "Partition_0-1-2"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "delays-by-dest-1",
      "partition": 0,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "delays-by-dest-1",
      "partition": 0,
      "keyBucket": 1
    }
  ],
  "broadcast": [],
  "base": {
    "embedded/delays-by-dest-1/0#0": {
      "system": "embedded",
      "stream": "delays-by-dest-1",
      "partition": 0,
      "keyBucket": -1
    },
    "embedded/delays-by-dest-1/0#1": {
      "system": "embedded",
      "stream": "delays-by-dest-1",
      "partition": 0,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "state-0",
    "state-1",
    "state-2",
    "state-3"
  ],
  "predecessors": [],
  "upstream": [
    "0-00000001",
    "0-00000002"
  ],
  "beside": {
    "1-00000003": [],
    "1-00000004": []
  },
  "outputs": {
    "by-destination": 2
  },
  "systems": {},
  "deadLetters": {},
  "reports": [],
  "rejecting": [],
  "stateful": true,
  "factor": 2,
  "numbers": {
    "embedded/delays-by-dest-1/0": 0
  },
  "bases": [
    0
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
  "state": "planned",
  "epoch": 1,
  "folderEpoch": 1,
  "ran": true,
  "begun": false,
  "unfenced": false,
  "abandoned": false,
  "final": [
    {
      "ssp": {
        "system": "embedded",
        "stream": "delays-by-dest-1",
        "partition": 0,
        "keyBucket": 0
      },
      "offset": 7,
      "parts": {}
    },
    {
      "ssp": {
        "system": "embedded",
        "stream": "delays-by-dest-1",
        "partition": 0,
        "keyBucket": 1
      },
      "offset": 7,
      "parts": {}
    }
  ],
  "lastBatch": 3,
  "watermark": null,
  "putAside": 0,
  "wrote": {},
  "error": null
}');
INSERT INTO "lanes" VALUES('delays','1-00000004',1,1,3,'planned','{
  "version": 1,
  "id": "1-00000004",
  "job": "delays",
  "deployment": 1,
  "stage": "1",
  "group": "agg",
  "seat": "1",
  "tasks": [
    "Partition_1-0-2",
    "Partition_1-1-2"
  ],
  "ssps": [
    {
      "system": "embedded",
      "stream": "delays-by-dest-1",
      "partition": 1,
      "keyBucket": 0
    },
    {
      "system": "embedded",
      "stream": "delays-by-dest-1",
      "partition": 1,
      "keyBucket": 1
    }
  ],
  "broadcast": [],
  "base": {
    "embedded/delays-by-dest-1/1#0": {
      "system": "embedded",
      "stream": "delays-by-dest-1",
      "partition": 1,
      "keyBucket": -1
    },
    "embedded/delays-by-dest-1/1#1": {
      "system": "embedded",
      "stream": "delays-by-dest-1",
      "partition": 1,
      "keyBucket": -1
    }
  },
  "fresh": [],
  "slots": [
    "state-0",
    "state-1",
    "state-2",
    "state-3"
  ],
  "predecessors": [],
  "upstream": [
    "0-00000001",
    "0-00000002"
  ],
  "beside": {
    "1-00000003": [],
    "1-00000004": []
  },
  "outputs": {
    "by-destination": 2
  },
  "systems": {},
  "deadLetters": {},
  "reports": [],
  "rejecting": [],
  "stateful": true,
  "factor": 2,
  "numbers": {
    "embedded/delays-by-dest-1/1": 1
  },
  "bases": [
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
  "state": "planned",
  "epoch": 2,
  "folderEpoch": 0,
  "ran": false,
  "begun": false,
  "unfenced": false,
  "abandoned": false,
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
INSERT INTO "leader" VALUES(1,1,'http://10.0.0.1:7070',0);
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
INSERT INTO "models" VALUES('delays',1,1,'{
  "version": 1,
  "job": "delays",
  "runId": 1,
  "generation": 1,
  "factor": 2,
  "stages": [
    {
      "stage": "0",
      "key": [
        "tailnum"
      ],
      "stateful": false,
      "grouper": "partition",
      "inputs": [
        "embedded/flights"
      ],
      "tasks": [
        {
          "name": "Partition_0-0-2",
          "index": 0,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "flights",
              "partition": 0,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-1-2",
          "index": 1,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "flights",
              "partition": 0,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-0-2",
          "index": 2,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "flights",
              "partition": 1,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-1-2",
          "index": 3,
          "stage": "0",
          "ssps": [
            {
              "system": "embedded",
              "stream": "flights",
              "partition": 1,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        }
      ],
      "base": {}
    },
    {
      "stage": "1",
      "key": [
        "dest"
      ],
      "stateful": true,
      "grouper": "partition",
      "inputs": [
        "embedded/delays-by-dest-1"
      ],
      "tasks": [
        {
          "name": "Partition_0-0-2",
          "index": 0,
          "stage": "1",
          "ssps": [
            {
              "system": "embedded",
              "stream": "delays-by-dest-1",
              "partition": 0,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_0-1-2",
          "index": 1,
          "stage": "1",
          "ssps": [
            {
              "system": "embedded",
              "stream": "delays-by-dest-1",
              "partition": 0,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-0-2",
          "index": 2,
          "stage": "1",
          "ssps": [
            {
              "system": "embedded",
              "stream": "delays-by-dest-1",
              "partition": 1,
              "keyBucket": 0
            }
          ],
          "broadcast": []
        },
        {
          "name": "Partition_1-1-2",
          "index": 3,
          "stage": "1",
          "ssps": [
            {
              "system": "embedded",
              "stream": "delays-by-dest-1",
              "partition": 1,
              "keyBucket": 1
            }
          ],
          "broadcast": []
        }
      ],
      "base": {
        "embedded/delays-by-dest-1/0": {
          "system": "embedded",
          "stream": "delays-by-dest-1",
          "partition": 0,
          "keyBucket": -1
        },
        "embedded/delays-by-dest-1/1": {
          "system": "embedded",
          "stream": "delays-by-dest-1",
          "partition": 1,
          "keyBucket": -1
        }
      }
    }
  ],
  "containers": [
    {
      "seat": "0",
      "tasks": {
        "0": [
          "Partition_0-0-2",
          "Partition_0-1-2"
        ],
        "1": [
          "Partition_0-0-2",
          "Partition_0-1-2"
        ]
      },
      "rack": null
    },
    {
      "seat": "1",
      "tasks": {
        "0": [
          "Partition_1-0-2",
          "Partition_1-1-2"
        ],
        "1": [
          "Partition_1-0-2",
          "Partition_1-1-2"
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
CREATE UNIQUE INDEX containers_of_a_job ON containers (job, epoch);
CREATE INDEX events_of_a_job ON events (job, id);
CREATE INDEX lanes_of_a_deployment ON lanes (job, deployment);
COMMIT;
